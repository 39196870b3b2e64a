"""Chooses the replica that a consumer should read from: one in the consumer's rack, if possible (KIP-392).

With ``replica.selector.class`` set to Kafka's RackAwareReplicaSelector, the leader redirects a consumer to a replica
in its rack. It chooses the replica with the most records, among the in-sync ones that have the offset. If the leader is
in that rack, it serves the consumer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pybroker.cluster.metadata.image import BrokerRegistration
from pybroker.config import BrokerConfig
from pybroker.replication.fetch_partition import UNKNOWN, FetchPartition
from pybroker.replication.partition import Partition

RACK_AWARE: Final = "RackAwareReplicaSelector"

Select = Callable[[Partition, FetchPartition], int]
"""Returns the replica to read from, UNKNOWN for the replica on this broker."""


def is_rack_aware(config: BrokerConfig) -> bool:
    """Returns True if the broker redirects consumers to replicas in their racks."""
    return (config["replica.selector.class"] or "").rpartition(".")[2] == RACK_AWARE


def by_rack(rack: str, brokers: Mapping[int, BrokerRegistration]) -> Select:
    """Returns the selector for a consumer in ``rack``."""
    there = {id for id, broker in brokers.items() if broker.rack == rack}

    def select(partition: Partition, wanted: FetchPartition) -> int:
        isr = partition.isr
        if isr is None or partition.node_id in there:
            return UNKNOWN
        offset = wanted.fetch_offset
        fit = [
            (follower.log_end_offset, -id)
            for id, follower in isr.followers.items()
            if id in there and id in isr.members and follower.log_start_offset <= offset <= follower.log_end_offset
        ]
        return -max(fit)[1] if fit else UNKNOWN

    return select
