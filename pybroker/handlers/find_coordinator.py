"""FindCoordinator (10): finds the coordinator of a group or transactional id. Version 0 finds groups only; v1 adds
transactional ids (KIP-98), v4 several keys (KIP-699).

The coordinator of a group is the leader of its partition of ``__consumer_offsets``, that of a
transactional id the leader of its partition of ``__transaction_state``. The first request for a
coordinator creates its topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from pybroker.cluster.metadata.image import NO_LEADER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, PartitionImage, TopicImage
from pybroker.coordinator.partitioner import partition_for
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pybroker.handlers.common.security.rights import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, Right, check
from pyclient.protocol import FindCoordinator, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Coordinator = FindCoordinator.Response.Coordinator



class CoordinatorType(IntEnum):
    """What a coordinator coordinates, groups or transactions: FindCoordinator's ``key_type``."""

    GROUP = 0
    TRANSACTION = 1


_TOPICS: Final[Mapping[int, str]] = {
    CoordinatorType.GROUP: OFFSETS_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTIONS_TOPIC,
}
"""The topic of the coordinators of each type."""
_RIGHTS: Final[Mapping[int, Right]] = {
    CoordinatorType.GROUP: DESCRIBE_GROUP,
    CoordinatorType.TRANSACTION: DESCRIBE_TRANSACTIONAL_ID,
}
"""The right that a client needs to find a coordinator of each type."""
_FIRST_WITH_SEVERAL_KEYS = 4
_NO_NODE = -1


async def handle(request: FindCoordinator.Request, call: Call) -> FindCoordinator.Response:
    """Answers with node, host and port of each key's coordinator, or with an error."""
    if call.version >= _FIRST_WITH_SEVERAL_KEYS:
        keys = request.coordinator_keys
        found = await one_by_one(keys, lambda key: _find(key, request.key_type, call), call)
        return FindCoordinator.Response(coordinators=found)
    single = await _find(request.key, request.key_type, call)
    return FindCoordinator.Response(
        error_code=single.error_code,
        error_message=single.error_message or "NONE",
        node_id=single.node_id,
        host=single.host,
        port=single.port,
    )


async def _find(key: str, key_type: int, call: Call) -> Coordinator:
    try:
        leader = await _leader(key, key_type, call)
        address = call.broker.endpoint_for(call.connection).get(leader)
        if address is None:
            raise errors.CoordinatorNotAvailable(f"broker {leader} is down, or lacks the client's listener")
    except KafkaError as error:
        return FindCoordinator.Response.Coordinator(
            key=key,
            node_id=_NO_NODE,
            port=_NO_NODE,
            error_code=error.code,
            error_message=str(error),
        )
    host, port = address
    return FindCoordinator.Response.Coordinator(
        key=key, node_id=leader, host=host, port=port, error_message=""
    )


async def _leader(key: str, key_type: int, call: Call) -> int:
    if key_type not in _TOPICS:
        raise errors.InvalidRequest(f"there are no coordinators of type {key_type}")
    check(call, _RIGHTS[key_type], key)
    partition = await _partition(key, key_type, call)
    if call.broker.suspects.lead([partition]):
        await call.broker.suspects.settled()
        partition = await _partition(key, key_type, call)
    leader = partition.leader
    if leader == NO_LEADER:
        raise errors.CoordinatorNotAvailable(f"the partition that coordinates {key} has no leader")
    return leader


async def _partition(key: str, key_type: int, call: Call) -> PartitionImage:
    topic = await internal_topic(_TOPICS[key_type], call)
    return topic.partitions[partition_for(key, len(topic.partitions))]


async def internal_topic(name: str, call: Call) -> TopicImage:
    """Returns the topic in which coordinators keep their state; first creates it if it does not exist.

    Raises CoordinatorNotAvailable.
    """
    topic: TopicImage | None = call.broker.metadata.image.topic(name)
    if topic is not None:
        return topic
    try:
        topic = await call.broker.controller.auto_creation.ensure_internal(name)
    except KafkaError as error:
        raise errors.CoordinatorNotAvailable(f"{name}: {error}") from error
    return topic
