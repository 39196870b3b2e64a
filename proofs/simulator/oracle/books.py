"""The books of one history, as the parts of the oracle see them: what is where, and how they tell what must not be."""

from __future__ import annotations

from typing import Protocol

from proofs.simulator.machines.cluster import Cluster
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.incarnations import Incarnations
from pybroker.topic_partition import TopicPartition


class Books(Protocol):
    """The part of the oracle that its parts use."""

    cluster: Cluster
    incarnations: Incarnations
    chains: dict[tuple[int, TopicPartition], Chain]
    """By node id and partition: the log, that of a process that is gone too."""
    committed: dict[TopicPartition, Chain]
    acked: dict[TopicPartition, int]
    """Below it lies something that was acknowledged with acks=all."""

    def report(self, invariant: str, text: str) -> None:
        """Something must not happen, and has: it is said after the event."""

    def fail(self, invariant: str, text: str) -> None:
        """Raises Violation."""
