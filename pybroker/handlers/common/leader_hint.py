"""Adds a partition's current leader to NOT_LEADER_OR_FOLLOWER, so that clients need not ask for it (KIP-951)."""

from __future__ import annotations

from typing import Any

from pybroker.handlers.common.call import Call


def add_leader_hint(response: Any, answer: Any, call: Call, topic: str | None, topic_id: bytes, index: int) -> None:
    """Puts the leader into ``answer``, and its address into ``response``, of Produce or Fetch.

    The topic is given by name, or by id if the name is None. An unknown topic gets no hint.
    """
    image = call.broker.metadata.image
    if topic is None:
        found = image.topic_by_id(topic_id)
        topic = found.name if found is not None else ""
    partition = image.partition(topic, index)
    if partition is None:
        return
    messages = type(response)
    leader = partition.leader
    answer.current_leader = messages.LeaderIdAndEpoch(leader_id=leader, leader_epoch=partition.leader_epoch)
    address = call.broker.endpoint_for(call.connection).get(leader)
    if address is not None and all(node.node_id != leader for node in response.node_endpoints):
        broker = image.brokers.get(leader)
        rack = broker.rack if broker is not None else None
        endpoint = messages.NodeEndpoint(node_id=leader, host=address[0], port=address[1], rack=rack)
        response.node_endpoints.append(endpoint)
