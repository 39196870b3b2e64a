"""Draws from a seed how large the cluster is, which faults happen and how fast everything is.

Each history has only some of the faults and clients, so that no fault hides another (swarm testing).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from pybroker.cluster.decisions.topic_rules import MIN_ISR
from pybroker.config import rights

FAULTS = (
    "kill",
    "pause",
    "cut",
    "isolate",
    "expire",
    "stop",
    "power",
    "disk",
    "stall",
    "slow",
    "clock",
    "elect",
    "reassign",
    "controller",
)

ROOMS: dict[str, tuple[str, ...]] = {
    "threads": (),
    "first start": (),
    "hangs": ("hang",),
    "disks": ("move log", "full disk"),
    "unmounted disks": ("unmounted disk", "move log"),
    "topics": ("delete topic", "grow topic", "configure topic"),
    "topic nodes": ("forget", "garble", "full store"),
    "restored store": ("restore",),
    "empty store": ("empty store",),
}
"""Faults that need a special cluster. A history has those of at most one of these rooms."""
IN_USE = tuple(ROOMS)
"""The rooms that seeds draw."""
ROOM_CHANCE = 0.4
GROUPS_CHANCE = 0.3
"""The share of histories with consumer groups, among those without a room and those of these rooms."""
GROUPS_IN = frozenset({"", "topics"})
RIGHTS_CHANCE = 0.2
"""The share of histories with an authorizer, among those without a room and those of these rooms."""
RIGHTS_IN = frozenset({"", "topics", "threads"})
KEEPS_DISKS = frozenset({"power", "disk", "reassign"})
"""Faults that a history leaves out if the whole store goes back in time, because the replicas must stay where the
restored store places them. A history whose disks fill up or are not mounted leaves them out too: both losses together
are one too many.
"""
LONG_S = 5.0
HARMLESS = frozenset({"elect", "clock"})
"""The faults that may happen while one broker hangs, because others can still lead."""

SESSION_MS = 600
GROUPS = {
    "group.min.session.timeout.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "300",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.assignment.interval.ms": "0",
    MIN_ISR: "2",
}
"""The groups' settings of brokers whose cluster has consumer groups."""
AUTHORIZER = {"authorizer.class.name": rights.STANDARD, "super.users": "User:ANONYMOUS"}
"""All clients except the guests may do everything."""
RARE = {"reassign": 0.15}
"""The chance of faults that are drawn less often than others. A history with reassignments has one more broker."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one simulated history."""

    brokers: int = 3
    partitions: int = 1
    min_isr: int = 2
    has_own_min_isr: bool = False
    """The brokers' settings have min.insync.replicas, not the topic's."""
    has_mixed_min_isr: bool = False
    """Each start of a broker sets min.insync.replicas to 1 or 2 in its settings."""
    flush_acks: bool = False
    writers: int = 2
    weak_writers: int = 0
    """Writers with acks=1. Nobody promises that their records stay, but they make logs diverge."""
    batches: int = 10
    transactional: int = 0
    """The number of transactional ids."""
    transactions: int = 4
    has_zombies: bool = False
    """Each transactional id has two owners."""
    readers: bool = False
    duration_s: float = 2.0
    """The time in which faults happen."""
    pause_s: float = 0.1
    """The longest pause between two batches of a writer."""
    faults: frozenset[str] = field(default_factory=frozenset)
    fault_every_s: float = 0.4
    knows_death: bool = True
    """The store learns at once that a process has ended."""
    session_timeout_s: float = 0.6
    request_timeout_s: float = 0.3
    delivery_timeout_s: float = 8.0
    slow_chance: float = 0.01
    slow_s: float = 0.05
    classic_members: int = 0
    """The number of members of the classic group."""
    modern_members: int = 0
    """The number of members of the other group, which uses the new protocol (KIP-848)."""
    lives: int = 3
    """The number of times that each member joins."""
    guests: int = 0
    """The number of clients whose rights come and go. If it is not 0, the brokers have an authorizer."""
    room: str = ""
    """One of ``ROOMS``, or none."""
    has_threads: bool = False
    """True if pool threads are interleaved. Otherwise their work is done at once."""
    is_stopped: bool = False
    """True if every broker is stopped in order at the end."""

    @classmethod
    def draw(cls, rng: Random) -> Settings:
        """Draws the settings of a seed."""
        kinds = [name for name in FAULTS if rng.random() < RARE.get(name, 0.3)]
        transactional = rng.choice((0, 0, 1, 2))
        return cls(
            brokers=4 if "reassign" in kinds else 3,
            partitions=rng.choice((1, 1, 2)),
            min_isr=rng.choice((1, 2, 2, 2)),
            flush_acks=rng.random() < 0.3,
            writers=rng.choice((0, 1)) if transactional else rng.choice((1, 2)),
            weak_writers=rng.choice((0, 0, 1)),
            batches=rng.choice((3, 5, 8)),
            transactional=transactional,
            transactions=rng.choice((2, 3, 4)),
            has_zombies=rng.random() < 0.3,
            readers=rng.random() < 0.3,
            duration_s=rng.choice((0.3, 0.5, 0.8)),
            faults=frozenset(kinds or [rng.choice(FAULTS)]),
            fault_every_s=rng.choice((0.05, 0.1, 0.2)),
            pause_s=rng.choice((0.02, 0.05, 0.1)),
            knows_death=rng.random() < 0.5,
            slow_chance=rng.choice((0.0, 0.01, 0.1)),
            slow_s=rng.choice((0.02, 0.1, 1.0, 2.0)),
            has_own_min_isr=rng.random() < 0.5,
            has_mixed_min_isr=rng.random() < 0.5,
        )

    def in_room(self, room: str, rng: Random) -> Settings:
        """Returns these settings with the faults of a room added."""
        own = ROOMS[room]
        kinds = {kind for kind in own if rng.random() < 0.6} or set(own[:1])
        others = self.faults - KEEPS_DISKS if room.endswith(("store", "disks")) else self.faults
        if room == "hangs":
            others &= HARMLESS
        is_about_threads = room == "threads"
        return replace(
            self,
            room=room,
            faults=others | kinds,
            is_stopped=rng.random() < 0.5,
            transactional=max(1, self.transactional) if room == "first start" else self.transactional,
            slow_chance=0.0 if room == "hangs" else self.slow_chance,
            duration_s=LONG_S if room == "hangs" else self.duration_s,
            has_threads=is_about_threads or rng.random() < 0.3,
            flush_acks=rng.random() < 0.7 if is_about_threads else self.flush_acks,
        )

    def with_groups(self, rng: Random) -> Settings:
        """Returns these settings with consumer groups."""
        members = (0, 2, 3)
        return replace(self, partitions=2, classic_members=rng.choice(members), modern_members=rng.choice(members))

    def with_rights(self, rng: Random) -> Settings:
        """Returns these settings with an authorizer."""
        return replace(self, guests=rng.choice((3, 6)))

    @property
    def has_groups(self) -> bool:
        """Whether there are consumer groups."""
        return bool(self.classic_members or self.modern_members)

    @property
    def loses_store(self) -> bool:
        """Whether the store is lost or goes back in time, so that nothing has to work at the end."""
        return self.room.endswith("store")

    @property
    def least_min_isr(self) -> int:
        """The lowest min.insync.replicas that a leader of the topic may use."""
        return 1 if self.has_own_min_isr and self.has_mixed_min_isr else self.min_isr

    @property
    def least_offsets_min_isr(self) -> int:
        """The lowest min.insync.replicas that a leader of ``__consumer_offsets`` may use. This topic always has the
        brokers' value.
        """
        return self.least_min_isr if self.has_own_min_isr else 2

    def topic(self) -> dict[str, str]:
        """Returns the topic's configuration."""
        own = {} if self.has_own_min_isr else {MIN_ISR: str(self.min_isr)}
        return own | {"segment.bytes": "1024", "flush.ms": "20"} if self.room == "threads" else own

    def _own_min_isr(self, node_id: int, start: int) -> int:
        return 1 + (node_id + start) % 2 if self.has_mixed_min_isr else self.min_isr

    def broker(self, node_id: int, start: int) -> dict[str, str]:
        """Returns a broker's configuration at its ``start``-th start."""
        return {
            "transaction.state.log.num.partitions": "1",
            "offsets.topic.num.partitions": "1",
            "replica.lag.time.max.ms": "500",
            "replica.fetch.wait.max.ms": "500",
            "replica.fetch.backoff.ms": "100",
            "replica.socket.timeout.ms": "800",
            "request.timeout.ms": "800",
            "auto.leader.rebalance.enable": "false",
            "log.message.timestamp.after.max.ms": str((1 << 63) - 1),  # the calendars jump
            "flush.acks": str(self.flush_acks).lower(),
            **({"default.replication.factor": "3"} if self.room == "first start" else {}),
            **({"log.dirs": "/disk,/disk2"} if self.room.endswith("disks") else {}),
            **({"log.flush.scheduler.interval.ms": "30"} if self.room == "threads" else {}),
            **(GROUPS if self.has_groups else {}),
            **(AUTHORIZER if self.guests else {}),
            **({"log.retention.check.interval.ms": "200"} if self.room == "topics" else {}),
            **({MIN_ISR: str(self._own_min_isr(node_id, start))} if self.has_own_min_isr else {}),
        }
