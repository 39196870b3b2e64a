"""Who leads a partition now, told with NOT_LEADER_OR_FOLLOWER: nobody needs to ask (KIP-951)."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.cluster.image import NO_LEADER
from pybroker.handlers.call import Call


class LeaderHint(NamedTuple):
    """The leader as the metadata has it, and where the client reaches it, if that is known."""

    leader: int
    leader_epoch: int
    address: tuple[str, int] | None
    rack: str | None


def leader_hint(call: Call, topic: str | None, topic_id: bytes, index: int) -> LeaderHint:
    """The leader of a partition, by topic name or (None) id; (-1, -1) where it is unknown."""
    image = call.broker.metadata.image
    if topic is None:
        found = image.topic_by_id(topic_id)
        topic = found.name if found is not None else ""
    partition = image.partition(topic, index)
    if partition is None:
        return LeaderHint(NO_LEADER, -1, None, None)
    address = call.broker.endpoint_for(call.connection).get(partition.leader)
    broker = image.brokers.get(partition.leader)
    rack = broker.rack if broker is not None else None
    return LeaderHint(partition.leader, partition.leader_epoch, address, rack)
