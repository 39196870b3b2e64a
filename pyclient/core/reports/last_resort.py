"""Logging for applications that have not configured any: errors and urgent messages go to stderr.

A library is silent unless it is asked, but a callback that raises would be so for ever, as would a consumer that does
not reach its broker.
"""

from __future__ import annotations

import logging
from typing import Final

LOG: Final = logging.getLogger("pyclient")
URGENT: Final = "pyclient_is_urgent"
"""A record's attribute (``extra``): it is shown though it is no error."""


class LastResort(logging.Handler):
    """Gives errors and what is urgent to Python's last resort where no other handler would take them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Python's own does not: the logger has a handler, this one."""
        resort = logging.lastResort
        is_shown = record.levelno >= logging.ERROR or getattr(record, URGENT, False)
        if is_shown and resort is not None and not _is_taken(record.name):
            resort.handle(record)


def _is_taken(name: str) -> bool:
    """Whether a handler of the application sees what this logger has."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not isinstance(handler, LastResort) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def install() -> None:
    """Once; again: does nothing."""
    if not any(isinstance(handler, LastResort) for handler in LOG.handlers):
        LOG.addHandler(LastResort(logging.WARNING))
