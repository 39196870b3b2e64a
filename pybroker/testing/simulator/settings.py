"""What a seed draws: how large the cluster is, which faults happen, how fast everything is (swarm testing:
each history has some of everything, so none hides another).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

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

MIN_ISR = "min.insync.replicas"
RARE = {"reassign": 0.15}
"""It needs a broker more."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One history."""

    brokers: int = 3
    partitions: int = 1
    min_isr: int = 2
    has_own_min_isr: bool = False
    """It is in the brokers' settings, not in the topic's."""
    has_mixed_min_isr: bool = False
    """There it is 1 or 2, another one with each start of a broker."""
    flush_acks: bool = False
    writers: int = 2
    weak_writers: int = 0
    """With acks=1: of them nothing is promised, but logs come apart where they have written."""
    batches: int = 10
    transactional: int = 0
    """How many transactional ids."""
    transactions: int = 4
    has_zombies: bool = False
    """Each of them has two owners."""
    has_old_clients: bool = False
    """They are of transactions v1."""
    readers: bool = False
    duration_s: float = 2.0
    """How long faults happen."""
    pause_s: float = 0.1
    """Between two batches of a writer, at most."""
    faults: frozenset[str] = field(default_factory=frozenset)
    fault_every_s: float = 0.4
    knows_death: bool = True
    """The store knows at once when a process has ended."""
    session_timeout_s: float = 0.6
    request_timeout_s: float = 0.3
    delivery_timeout_s: float = 8.0
    slow_chance: float = 0.01
    slow_s: float = 0.05

    @classmethod
    def draw(cls, rng: Random) -> Settings:
        """Of a seed."""
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

    @property
    def least_min_isr(self) -> int:
        """By which somebody may commit."""
        return 1 if self.has_own_min_isr and self.has_mixed_min_isr else self.min_isr

    def topic(self) -> dict[str, str]:
        """Keys of the topic's configuration."""
        return {} if self.has_own_min_isr else {MIN_ISR: str(self.min_isr)}

    def _own_min_isr(self, node_id: int, start: int) -> int:
        return 1 + (node_id + start) % 2 if self.has_mixed_min_isr else self.min_isr

    def broker(self, node_id: int, start: int) -> dict[str, str]:
        """Keys of a broker's configuration when it starts for the ``start``-th time."""
        return {
            "transaction.state.log.num.partitions": "1",
            "offsets.topic.num.partitions": "1",
            "replica.lag.time.max.ms": "500",
            "replica.fetch.wait.max.ms": "500",
            "replica.fetch.backoff.ms": "100",
            "replica.socket.timeout.ms": "800",
            "request.timeout.ms": "800",
            "auto.leader.rebalance.enable": "false",
            "log.message.timestamp.after.max.ms": str((1 << 63) - 1),  # clocks jump
            "flush.acks": str(self.flush_acks).lower(),
            **({MIN_ISR: str(self._own_min_isr(node_id, start))} if self.has_own_min_isr else {}),
        }
