"""Closes connections that were not used for connections.max.idle.ms. It runs on the client's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from pyclient.core.nodes.node import Node

LEAST_S: Final = 1.0
"""The least seconds between two checks, however short connections.max.idle.ms is."""


class Reaper:
    """Checks for idle connections from time to time, after ``start``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle_s: float, nodes: Callable[[], Iterable[Node]]) -> None:
        self._loop = loop
        self._idle_s = idle_s
        self._nodes = nodes
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Plans the next check, if none is planned."""
        if self._timer is None and not self._is_stopped:
            self._timer = self._loop.call_later(max(LEAST_S, self._idle_s / 4), self._reap)

    def _reap(self) -> None:
        self._timer = None
        limit = self._loop.time() - self._idle_s
        for node in self._nodes():
            used_at = node.idle_since()
            if used_at is not None and used_at < limit:
                node.disconnect("idle")
        self.start()

    def stop(self) -> None:
        """Ends the checks for idle connections."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
