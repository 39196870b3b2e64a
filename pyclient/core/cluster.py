"""What is known of the cluster: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from typing import NamedTuple


class Broker(NamedTuple):
    """A broker as Metadata names it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition as Metadata describes it; ``leader`` is -1 where there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Cluster:
    """The metadata state machine."""
