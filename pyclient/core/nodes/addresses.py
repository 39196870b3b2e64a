"""The addresses of a name, and which of them is tried next (KIP-302). No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Address = tuple[Any, Any]
"""Address family, and the address to connect a socket to."""


class Addresses:
    """The addresses of one server. An attempt begins with the address that was not tried for the longest time. An
    address that never answers thus uses up the time of one attempt, not of all.
    """

    def __init__(self) -> None:
        self._tried: dict[Any, int] = {}
        """The number of the last attempt at each address that did not lead to a connection."""
        self._count = 0
        self._current: Any = None

    def ordered(self, resolved: Sequence[Address]) -> list[Address]:
        """Returns the resolved addresses in the order in which to try them; untried ones stay in the resolver's order.
        """
        known = {address for _, address in resolved}
        self._tried = {address: at for address, at in self._tried.items() if address in known}
        return sorted(resolved, key=lambda each: self._tried.get(each[1], 0))

    def begin(self, address: Any) -> None:
        """Notes that the address is tried now."""
        self._count += 1
        self._tried[address] = self._count
        self._current = address

    def works(self) -> None:
        """Notes that the last address led to the server: the next attempt begins with it."""
        self._tried.pop(self._current, None)
