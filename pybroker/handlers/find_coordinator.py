"""FindCoordinator (10): v0 groups, v1 transactional ids (KIP-98), v4 several keys (KIP-699).

The coordinator of a group is the leader of its partition of ``__consumer_offsets``, which is made
when the first group is looked for. A transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED: it
is the one answer after which no client asks again until its timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.cluster.image import NO_LEADER, OFFSETS_TOPIC, TopicImage
from pybroker.coordinator.partitioner import partition_for
from pybroker.handlers.call import Call
from pyclient.protocol import FindCoordinator, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Coordinator = FindCoordinator.Response.Coordinator

_GROUP, _TRANSACTION = 0, 1
_FIRST_WITH_SEVERAL_KEYS = 4
_NO_NODE = -1


async def handle(request: FindCoordinator.Request, call: Call) -> FindCoordinator.Response:
    """Node, host and port for each key, or why there is none."""
    if call.version >= _FIRST_WITH_SEVERAL_KEYS:
        keys = request.coordinator_keys
        return FindCoordinator.Response(
            coordinators=[await _find(key, request.key_type, call) for key in keys]
        )
    found = await _find(request.key, request.key_type, call)
    return FindCoordinator.Response(
        error_code=found.error_code,
        error_message=found.error_message or "NONE",
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(key: str, key_type: int, call: Call) -> Coordinator:
    try:
        leader = await _leader(key, key_type, call)
        address = call.broker.endpoint_for(call.connection).get(leader)
        if address is None:
            raise errors.CoordinatorNotAvailable(f"broker {leader} has no such listener")
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
    if key_type == _TRANSACTION:
        raise errors.TransactionalIdAuthorizationFailed("this broker does not serve transactions yet")
    if key_type != _GROUP:
        raise errors.InvalidRequest(f"there are no coordinators of type {key_type}")
    topic = await _offsets_topic(call)
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    if leader == NO_LEADER:
        raise errors.CoordinatorNotAvailable(f"the partition of {key} has no leader")
    return leader


async def _offsets_topic(call: Call) -> TopicImage:
    topic: TopicImage | None = call.broker.metadata.image.topic(OFFSETS_TOPIC)
    if topic is not None:
        return topic
    try:
        topic = await call.broker.controller.ensure_internal_topic(OFFSETS_TOPIC)
    except KafkaError as error:
        raise errors.CoordinatorNotAvailable(f"{OFFSETS_TOPIC}: {error}") from error
    return topic
