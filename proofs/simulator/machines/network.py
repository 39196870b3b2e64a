"""The network: messages take their time, and do not get through where it is cut.

A ``Channel`` is one direction of a connection: messages come in order, as TCP brings them. A message that is sent into
a cut waits there and arrives when the cut has healed. Its sender may have given up by then, and have sent the same on
another connection. So what is late is late by seconds, and in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from proofs.simulator.machines.scheduler import Scheduler

Link = tuple[int, int]


class Pace(NamedTuple):
    """How long a message takes, in seconds."""

    base_s: float = 0.0003
    jitter_s: float = 0.001
    slow_chance: float = 0.01
    slow_s: float = 0.05

    def draw(self, rng: Random) -> float:
        """The delay of one message."""
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
        """Seconds that are added."""
        self._cut: dict[Link, list[Callable[[], object]]] = {}

    def channel(self, source: int, target: int) -> Channel:
        """One direction of a new connection."""
        return Channel(self, (source, target))

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing gets from the one to the other."""
        return (source, target) in self._cut

    def cut(self, source: int, target: int) -> None:
        """From now on nothing gets through."""
        self._cut.setdefault((source, target), [])

    def heal(self, source: int, target: int) -> None:
        """What waits gets through."""
        for deliver in self._cut.pop((source, target), ()):
            deliver()

    @property
    def cuts(self) -> list[Link]:
        """All links that are cut."""
        return list(self._cut)

    def hold(self, link: Link, deliver: Callable[[], object]) -> bool:
        """True where the link is cut: ``deliver`` is called when it has healed."""
        waiting = self._cut.get(link)
        if waiting is None:
            return False
        waiting.append(deliver)
        return True

    def delay(self, link: Link) -> float:
        """How long the next message takes."""
        return self.pace.draw(self.rng) + self.slow.get(link, 0.0)


class Channel:
    """Messages from one place to another, in order."""

    __slots__ = ("_link", "_network", "_not_before", "is_lost")

    def __init__(self, network: Network, link: Link) -> None:
        self._network = network
        self._link = link
        self._not_before = 0.0
        self.is_lost = False
        """What is under way does not arrive."""

    def send(self, deliver: Callable[..., object], *args: Any) -> None:
        """Calls ``deliver(*args)`` at the other end, some time."""
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
