"""The network delays each message, and holds it back while its link is cut.

A ``Channel`` is one direction of a connection. It delivers messages in order, as TCP does. A message that is sent into
a cut waits and arrives when the cut has healed. By then its sender may have given up and sent the same on another
connection. So late messages are late by seconds, and may arrive in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from proofs.simulator.machines.scheduler import Scheduler

Link = tuple[int, int]


class Pace(NamedTuple):
    """The time that a message takes, in seconds."""

    base_s: float = 0.0003
    jitter_s: float = 0.001
    slow_chance: float = 0.01
    slow_s: float = 0.05

    def draw(self, rng: Random) -> float:
        """Draws the delay of one message."""
        delay = self.base_s + rng.random() * self.jitter_s
        if self.slow_chance and rng.random() < self.slow_chance:
            delay += rng.random() * self.slow_s
        return delay


class Network:
    """Which places can reach each other, and how fast."""

    def __init__(self, scheduler: Scheduler, rng: Random, pace: Pace) -> None:
        self.scheduler = scheduler
        self.pace = pace
        self.rng = rng
        self.slow: dict[Link, float] = {}
        """Seconds that are added on a link."""
        self._cut: dict[Link, list[Callable[[], object]]] = {}

    def channel(self, source: int, target: int) -> Channel:
        """Returns one direction of a new connection."""
        return Channel(self, (source, target))

    def is_cut(self, source: int, target: int) -> bool:
        """True if the link from ``source`` to ``target`` is cut."""
        return (source, target) in self._cut

    def cut(self, source: int, target: int) -> None:
        """Cuts a link."""
        self._cut.setdefault((source, target), [])

    def heal(self, source: int, target: int) -> None:
        """Heals a link, and delivers what waits there."""
        for deliver in self._cut.pop((source, target), ()):
            deliver()

    @property
    def cuts(self) -> list[Link]:
        """Returns all links that are cut."""
        return list(self._cut)

    def hold(self, link: Link, deliver: Callable[[], object]) -> bool:
        """Returns True if the link is cut. It then calls ``deliver`` when the link has healed."""
        waiting = self._cut.get(link)
        if waiting is None:
            return False
        waiting.append(deliver)
        return True

    def delay(self, link: Link) -> float:
        """Draws the delay of the next message."""
        return self.pace.draw(self.rng) + self.slow.get(link, 0.0)


class Channel:
    """Messages from one place to another, in order."""

    __slots__ = ("_link", "_network", "_not_before", "is_lost")

    def __init__(self, network: Network, link: Link) -> None:
        self._network = network
        self._link = link
        self._not_before = 0.0
        self.is_lost = False
        """True if messages on their way do not arrive."""

    def send(self, deliver: Callable[..., object], *args: Any) -> None:
        """Calls ``deliver(*args)`` at the other end, some time later."""
        network = self._network
        now = network.scheduler.now
        at = self._not_before = max(self._not_before, now + network.delay(self._link))
        network.scheduler.at(at, self._arrive, deliver, args)

    def _arrive(self, deliver: Callable[..., object], args: tuple[Any, ...]) -> None:
        if not self._network.hold(self._link, lambda: self._deliver(deliver, args)):
            self._deliver(deliver, args)

    def _deliver(self, deliver: Callable[..., object], args: tuple[Any, ...]) -> None:
        if not self.is_lost:
            deliver(*args)
