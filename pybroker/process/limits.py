"""How many brokers one supervisor may start."""

from __future__ import annotations

from typing import Final

MOST_PROCESSES: Final = 100
"""More would fill the memory of the machine, and are mostly a port in the wrong place: ``pybroker.run(9092)``."""
