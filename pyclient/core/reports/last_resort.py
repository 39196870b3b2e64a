"""Logging for applications that have not configured any: errors and urgent messages go to stderr.

A library is silent by default. Without this, a callback that raises would never be noticed, nor a consumer that cannot
reach its broker.
"""

from __future__ import annotations

import logging
from typing import Final

LOG: Final = logging.getLogger("pyclient")
URGENT: Final = "pyclient_is_urgent"
"""A log record's attribute (``extra``): the record is shown although it is no error."""


class LastResort(logging.Handler):
    """Passes errors and urgent records to Python's last resort if no other handler takes them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Passes the record on. Python itself does not, because the logger has a handler: this one."""
        resort = logging.lastResort
        is_shown = record.levelno >= logging.ERROR or getattr(record, URGENT, False)
        if is_shown and resort is not None and not _is_taken(record.name):
            resort.handle(record)


def _is_taken(name: str) -> bool:
    """Returns whether a handler of the application takes records of this logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not isinstance(handler, LastResort) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def install() -> None:
    """Installs the handler, once."""
    if not any(isinstance(handler, LastResort) for handler in LOG.handlers):
        LOG.addHandler(LastResort(logging.WARNING))
