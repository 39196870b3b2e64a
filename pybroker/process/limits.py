"""How many brokers one supervisor may start."""

from __future__ import annotations

from typing import Final

MOST_PROCESSES: Final = 100
"""How many brokers may be started. A larger number would fill the memory, and is usually a port in the wrong place:
``pybroker.run(9092)``.
"""
