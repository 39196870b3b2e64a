"""Reports servers that a client cannot reach, rarely, and even if logging is not configured.

An application that waits for records, or sends without waiting, makes no call that would raise the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyclient.core.reports.doctor import doctor
from pyclient.core.reports.last_resort import URGENT

if TYPE_CHECKING:
    from pyclient.errors import ConnectionFailed

T = TypeVar("T")

LOG: Final = logging.getLogger("pyclient")
FIRST_S: Final = 3.0
"""Seconds of failed attempts before they are reported; a restart of a broker is shorter."""
AGAIN_S: Final = 60.0
"""Seconds between two lines about one address."""


class Address(Protocol):
    """The part of a node that this module uses."""

    id: int
    was_reached: bool

    @property
    def name(self) -> str: ...


class Outages:
    """Notices outages for one client. Has no clock: ``now`` is in seconds."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        self._on_cut_off: Callable[[ConnectionFailed], object] = lambda error: None

    def tell(self, node: Address, broker: int, error: ConnectionFailed, now: float, is_connected: bool) -> None:
        """Logs that the broker's server is unreachable, unless it has logged that lately. ``is_connected`` tells that
        other servers are reached; then an unreachable bootstrap server does not matter.
        """
        if not is_connected:
            self._on_cut_off(error)
        if (node.id < 0 and is_connected) or now - self._told.get(node.name, -AGAIN_S) < AGAIN_S:
            return
        self._told[node.name] = now
        LOG.warning("%s", _text(node, broker, error), extra={URGENT: True})

    async def while_reached(self, work: Awaitable[T]) -> T:
        """Returns the result of ``work``. If there is no connection to any broker, and attempts have failed for
        ``FIRST_S``, cancels the work and raises the reason.
        """
        loop = asyncio.get_running_loop()
        why: list[ConnectionFailed] = []

        def give_up(error: ConnectionFailed) -> None:
            if not why:
                why.append(error)
                limit.reschedule(loop.time())

        try:
            async with asyncio.timeout(None) as limit:
                self._on_cut_off = give_up
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise why[0] from None
        finally:
            self._on_cut_off = lambda error: None

    def end(self, node: Address) -> None:
        """Notes that the server is reached."""
        if self._told.pop(node.name, None) is not None:
            LOG.warning("%s can be reached again", node.name, extra={URGENT: True})

    def forget(self, node: Address) -> None:
        """Forgets an address that was given up."""
        self._told.pop(node.name, None)


def _text(node: Address, broker: int, error: ConnectionFailed) -> str:
    if node.id < 0:
        return (
            f"no broker can be reached: {error}; bootstrap.servers names this address; still trying; "
            f"{doctor(node.name)}"
        )
    if node.was_reached:
        return f"broker {broker} can no longer be reached: {error}; still trying"
    return (
        f"broker {broker} cannot be reached: {error}; the cluster got this address from the broker's "
        "advertised.listeners: they must name one that can be reached from here"
    )
