"""Slows down clients that connect too often. It exists while a connection rate is limited."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from pybroker.net.limits import LEAST_RESERVED
from pybroker.quotas.arrivals import Arrivals

MOST_DELAYED: Final = LEAST_RESERVED // 2
"""How many refused connections may wait to be closed; a further one closes the oldest. They use reserved descriptors.
"""


class ArrivalLimits:
    """The connection rates of one server, and the connections that they refuse."""

    def __init__(
        self, rates: Arrivals, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int], protected: str | None
    ) -> None:
        """``protected`` is the listener of the brokers, if it is not the only one."""
        self.rates = rates
        self._loop = loop
        self._now_ms = now_ms
        self._protected = protected
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}

    def pause_s(self, listener: str) -> float:
        """Counts an accepted connection. Returns for how long this listener must accept no other one."""
        return self.rates.accept(listener, self._now_ms(), is_protected=listener == self._protected) / 1000

    def put_off(self, sock: socket.socket, address: str) -> bool:
        """Closes the connection after a delay if it exceeds its address's rate; returns False otherwise."""
        delay_ms = self.rates.refuse(address, self._now_ms())
        if not delay_ms:
            return False
        if len(self._delayed) >= MOST_DELAYED:
            self._close(next(iter(self._delayed)))
        self._delayed[sock] = self._loop.call_later(delay_ms / 1000, self._close, sock)
        return True

    def _close(self, sock: socket.socket) -> None:
        self._delayed.pop(sock).cancel()
        sock.close()

    def close(self) -> None:
        """Closes all refused connections that are still open."""
        for sock in list(self._delayed):
            self._close(sock)
