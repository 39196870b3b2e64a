"""Log lines: stdlib logging to stderr, one format."""

from __future__ import annotations

import logging
import sys

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s {who}%(name)s: %(message)s"


def set_up(level: str, who: str = "") -> None:
    """Sends the lines of ``level`` and above to stderr; ``who`` tells apart processes that share it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT.format(who=who and f"[{who}] "), "%Y-%m-%d %H:%M:%S"))
    logging.raiseExceptions = False  # a closed stderr must not end a broker
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
