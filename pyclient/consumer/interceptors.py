"""Interceptors of a consumer (KIP-42): they see polled records and committed offsets, and change nothing.

Each is an object with any of ``configure(settings)``, ``on_consume(records)``, ``on_commit(offsets)`` and ``close()``.
``on_consume`` gets the records of a poll before the application has them. ``on_commit`` is called on the client's
thread, after the coordinator has accepted the offsets. Errors of interceptors are logged; the consumer continues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pyclient.config import CONSUMER, Config
from pyclient.core.reports.rare import RareLog
from pyclient.errors import ConfigError

log = logging.getLogger(__name__)


class Interceptors:
    """The interceptors of one consumer. Raises ConfigError if one is a class or a name instead of an object."""

    def __init__(self, config: Config) -> None:
        self._rare = RareLog(log)
        given: Any = config.interceptor_classes
        some = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
        self._all = [each for each in some if each is not None]
        for each in self._all:
            if isinstance(each, (type, str)):
                raise ConfigError(f"interceptor.classes={each!r} is not an object: pass an instance of the class")
        if self._all:
            self._tell("configure", {name: config[name] for name in CONSUMER})

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_consume(self, records: Any) -> None:
        """Calls ``on_consume`` with the records of a poll."""
        self._tell("on_consume", records)

    def on_commit(self, offsets: Any) -> None:
        """Calls ``on_commit`` with the committed offsets."""
        self._tell("on_commit", offsets)

    def close(self) -> None:
        """Calls ``close`` of each interceptor."""
        self._tell("close")

    def _tell(self, name: str, *arguments: Any) -> None:
        for each in self._all:
            method = getattr(each, name, None)
            if method is None:
                continue
            try:
                method(*arguments)
            except Exception:
                self._rare.exception(f"{name} of %r failed", each)
