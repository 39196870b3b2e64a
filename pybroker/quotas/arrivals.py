"""Limits how often clients may connect: to the broker, to one listener, from one address (KIP-612).

If a connection exceeds the rate of the broker or a listener, it is accepted, and later connections wait. If it exceeds
the rate of its address, it is not accepted and not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from cy.quota import Allowance
from pybroker.quotas.client_quotas import make_room
from pybroker.quotas.keys import CONNECTIONS, DEFAULT, Quotas
from pybroker.quotas.rate import Windows

LEAST_RATE: Final = 1e-6
"""The rate that is used instead of zero: each connection then waits as long as possible."""


class Arrivals:
    """The recent connections to the broker, and the rates that they may not exceed."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._of_broker = self._new()
        self._of_listeners: dict[str, Allowance] = {}
        self._of_addresses: dict[str, Allowance] = {}
        self._bounds: dict[str, float] = {}
        """The rates of addresses."""
        self._is_broker_limited = False
        self._limited: frozenset[str] = frozenset()
        """The listeners with a rate of their own."""

    def _new(self) -> Allowance:
        return Allowance(self._windows, self._windows.size_ms)

    def update(self, broker: float | None, listeners: Mapping[str, float], quotas: Quotas) -> None:
        """Sets the rates: of all listeners together, of single listeners, and of the addresses in ``quotas``."""
        self._is_broker_limited = broker is not None
        self._of_broker.bound = max(broker or 0.0, LEAST_RATE)
        self._limited = frozenset(listeners)
        for listener, rate in listeners.items():
            self._of_listeners.setdefault(listener, self._new()).bound = max(rate, LEAST_RATE)
        self._bounds = {
            entity.ip and ip_address(entity.ip).compressed: values[CONNECTIONS]
            for entity, values in quotas.items()
            if entity.ip is not None and CONNECTIONS in values
        }
        self._of_addresses.clear()

    @property
    def is_limited(self) -> bool:
        """True if any rate is limited."""
        return bool(self._is_broker_limited or self._limited or self._bounds)

    def accept(self, listener: str, now_ms: int, *, is_protected: bool = False) -> int:
        """Counts an accepted connection. Returns for how many milliseconds this listener must accept no other one.

        ``is_protected`` marks the listener of the brokers, which the clients of other listeners do not delay.
        """
        delay_ms = self._of_listeners[listener].use(1, now_ms) if listener in self._limited else 0
        if self._is_broker_limited and not is_protected:
            delay_ms = max(delay_ms, self._of_broker.use(1, now_ms))
        return delay_ms

    def refuse(self, address: str, now_ms: int) -> int:
        """Returns after how many milliseconds to close a connection of the address; 0 if it is within the rate."""
        bound = self._bounds.get(address, self._bounds.get(DEFAULT))
        if bound is None:
            return 0
        allowance = self._of_addresses.get(address)
        if allowance is None:
            make_room(self._of_addresses, now_ms)
            allowance = self._of_addresses[address] = self._new()
            allowance.bound = bound
        delay_ms = allowance.use(1, now_ms)
        if delay_ms:
            allowance.record(-1, now_ms)
        return delay_ms
