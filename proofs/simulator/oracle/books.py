"""The records of one history that the parts of the oracle share, and how they report violations."""

from __future__ import annotations

from typing import Protocol

from proofs.simulator.machines.cluster import Cluster
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.incarnations import Incarnations
from pybroker.topic_partition import TopicPartition


class Books(Protocol):
    """The oracle, as its parts see it."""

    cluster: Cluster
    incarnations: Incarnations
    chains: dict[tuple[int, TopicPartition], Chain]
    """By node id and partition: the replica's log, also if its process has ended."""
    committed: dict[TopicPartition, Chain]
    acked: dict[TopicPartition, int]
    """The end offset of the records that were acknowledged with acks=all."""

    def report(self, invariant: str, text: str) -> None:
        """Reports a violation after the current event."""

    def fail(self, invariant: str, text: str) -> None:
        """Raises Violation for this invariant."""
