"""Metadata (3): returns brokers, controller, topics and their leaders; may create the requested topics.

- v0: an empty list is all topics; v1+: null is all, empty is none
- v4 adds a flag for auto-creation, v5 offline replicas (KIP-112), v7 leader epochs (KIP-320)
- v8 adds authorized operations (KIP-430)
- v10 adds topic ids, by which clients may ask from v12 on (KIP-516), v13 an error for the whole response (KIP-1102)

A missing topic is created before the reply, so the reply has its leaders. If a leader may just have died, the reply
waits a moment for the next one (``cluster.suspects``).

Many partitions are described in turns (``pacing``), whether the request names their topics or not. Descriptions are
cached until they change (``described``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cy.counted import shortened
from cy.wire.wire_types import EncodedArray
from pybroker.cluster.decisions.internal_topics import internal_topic
from pybroker.cluster.decisions.topic_names import check_name
from pybroker.cluster.metadata.image import INTERNAL_TOPICS, NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.described import Form
from pybroker.handlers.common.mutation_quota import made_within_quota
from pybroker.handlers.common.pacing import Paced, in_turns, one_by_one, pieces, settled
from pybroker.handlers.common.security import authorized_operations
from pybroker.handlers.common.security.rights import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC, may
from pybroker.handlers.common.writes import ITEMS_AT_ONCE
from pybroker.printable import printable
from pyclient.protocol import ZERO_UUID, Metadata, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Partition = Metadata.Response.MetadataResponsePartition
    Topic = Metadata.Response.MetadataResponseTopic
    Broker = Metadata.Response.MetadataResponseBroker

_log: Final = logging.getLogger(__name__)
_FIRST_WITH_IDS = 12
_FIRST_WITH_LISTENER_NOT_FOUND = 6
_LAST_OF_PARTITIONS = 9
"""The last version that changed the fields of partitions."""


def handle(
    request: Metadata.Request, call: Call
) -> Metadata.Response | Awaitable[Metadata.Response]:
    """Answers at once, or when missing topics are created and it is clear whether suspected leaders are alive."""
    if call.broker.suspects.lead(_asked_for(request, call)):
        return _when_settled(request, call)
    return _answer(request, call)


def _asked_for(request: Metadata.Request, call: Call) -> Iterator[PartitionImage]:
    """Yields the partitions of the requested topics. A client without the right to describe a topic must not wait for
    its leaders, because that would show that it exists.
    """
    image: MetadataImage = call.broker.metadata.image
    for name in [topic.name for topic in request.topics] if request.topics else image.topics:
        topic = image.topics.get(name or "")
        if topic is not None and may(call, DESCRIBE_TOPIC, topic.name, is_told=False):
            yield from topic.partitions


async def _when_settled(request: Metadata.Request, call: Call) -> Metadata.Response:
    await call.broker.suspects.settled()
    return await settled(_answer(request, call))  # type: ignore[no-any-return]


def _answer(
    request: Metadata.Request, call: Call
) -> Metadata.Response | Awaitable[Metadata.Response]:
    missing = _to_create(request, call)
    if missing:
        return _after_creation(request, call, missing)
    return _response(request, call, {})


@in_turns
def _to_create(request: Metadata.Request, call: Call) -> Paced[dict[str, KafkaError | None]]:
    """Returns the missing topics by name, with an error for those that the client may not create."""
    names: dict[str, KafkaError | None] = {}
    if request.topics and request.allow_auto_topic_creation and call.broker.config["auto.create.topics.enable"]:
        known = call.broker.metadata.image.topics
        for topic in request.topics:
            yield
            name = topic.name
            is_missing = name and name not in known and name not in names and _is_legal(name)
            if name and is_missing and may(call, DESCRIBE_TOPIC, name):
                names[name] = None if _may_create(name, call) else errors.TopicAuthorizationFailed()
    return names


def _may_create(name: str, call: Call) -> bool:
    return may(call, CREATE_CLUSTER, is_told=False) or may(call, CREATE_TOPIC, name)


def _is_legal(name: str) -> bool:
    try:
        check_name(name)
    except KafkaError:
        return False
    return True


async def _after_creation(
    request: Metadata.Request,
    call: Call,
    missing: dict[str, KafkaError | None] | Awaitable[dict[str, KafkaError | None]],
) -> Metadata.Response:
    found: dict[str, KafkaError | None] = await settled(missing)
    outcomes: dict[str, TopicImage | KafkaError] = {name: error for name, error in found.items() if error is not None}
    wanted = [name for name, error in found.items() if error is None]

    async def create(names: list[str]) -> None:
        try:
            make = call.broker.controller.auto_creation.create
            made = await made_within_quota(names, _partitions_of, make, call)
            _tell_created([name for name, outcome in made.items() if isinstance(outcome, TopicImage)], call)
            outcomes.update(made)
        except KafkaError as error:
            outcomes.update(dict.fromkeys(names, error))

    await one_by_one(pieces(wanted, ITEMS_AT_ONCE), create, call)
    return await settled(_response(request, call, outcomes))  # type: ignore[no-any-return]


def _tell_created(names: Sequence[str], call: Call) -> None:
    """Logs the topics that a client has created by asking for them, since their names may be misspelt."""
    if names:
        client = printable(call.client_id or "")
        _log.info(
            "topics are created automatically, because client %s at %s requested them: %s",
            client,
            call.host,
            shortened(names),
        )


def _partitions_of(name: str, call: Call) -> int:
    """Returns how many partitions a new topic gets."""
    config = call.broker.config
    return internal_topic(name, config, 1).partitions if name in INTERNAL_TOPICS else int(config["num.partitions"])


def _found(
    request: Metadata.Request, call: Call, image: MetadataImage, outcomes: Mapping[str, TopicImage | KafkaError]
) -> Iterator[TopicImage | Topic | None]:
    """Yields the answer for each topic, in the order of the request; None for a hidden or repeated topic."""
    if request.topics is None or (call.version == 0 and not request.topics):
        for each in image.topics.values():
            yield each if may(call, DESCRIBE_TOPIC, each.name, is_told=False) else None
        return
    seen: set[tuple[str | None, bytes]] = set()
    for topic in request.topics:
        key = topic.name, topic.topic_id
        yield None if key in seen else _find(*key, call, image, outcomes)
        seen.add(key)


def _find(
    name: str | None,
    topic_id: bytes,
    call: Call,
    image: MetadataImage,
    outcomes: Mapping[str, TopicImage | KafkaError],
) -> TopicImage | Topic:
    if topic_id != ZERO_UUID or name is None:
        if call.version < _FIRST_WITH_IDS:
            return _failed(errors.InvalidRequest, name or "", topic_id)
        found = image.topic_by_id(topic_id)
        if found is not None and not may(call, DESCRIBE_TOPIC, found.name):
            return _failed(errors.TopicAuthorizationFailed, None, topic_id)
        return found or _failed(errors.UnknownTopicId, None, topic_id)
    if not may(call, DESCRIBE_TOPIC, name):
        return _failed(errors.TopicAuthorizationFailed, name)
    topic = image.topic(name)
    if topic is not None:
        return topic
    outcome = outcomes.get(name)
    if isinstance(outcome, KafkaError):
        return _failed(errors.LeaderNotAvailable if _may_pass(outcome) else type(outcome), name)
    return _failed(
        errors.UnknownTopicOrPartition if _is_legal(name) else errors.InvalidTopicException, name
    )


def _may_pass(error: KafkaError) -> bool:
    """Returns True if a later attempt to create the topic may succeed, with more brokers or another controller.

    Such a topic is answered with LEADER_NOT_AVAILABLE, because all clients ask again soon after that. librdkafka's
    producer gives up an unknown topic after 30 s; other errors are final, or last for ``metadata.max.age.ms``.
    """
    return error.retriable or isinstance(error, errors.InvalidReplicationFactor)


def _failed(error: type[KafkaError], name: str | None, topic_id: bytes = ZERO_UUID) -> Topic:
    return Metadata.Response.MetadataResponseTopic(
        error_code=error.code, name=name, topic_id=topic_id
    )


@in_turns
def _response(
    request: Metadata.Request, call: Call, outcomes: Mapping[str, TopicImage | KafkaError]
) -> Paced[Metadata.Response]:
    image: MetadataImage = call.broker.metadata.image
    addresses = call.broker.endpoint_for(call.connection)
    tells_operations = request.include_topic_authorized_operations
    response = Metadata.Response(
        brokers=[
            *(_broker(id, *address, image.brokers[id].rack) for id, address in addresses.items()),
            *_departed(call),
        ],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.metadata.live_controller,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.of_cluster(call)
    form = Form(frozenset(addresses), min(call.version, _LAST_OF_PARTITIONS))
    element = Metadata.response_codec.element(form.version, "topics", "partitions")
    for topic in _found(request, call, image, outcomes):
        yield
        if isinstance(topic, TopicImage):
            encoded = call.broker.described.find(topic, form)
            if encoded is None:
                encoded = EncodedArray(element)
                for partition in topic.partitions:
                    yield
                    encoded.append(_partition(partition, form))
                if topic.name in call.broker.metadata.image.topics:  # it may have been deleted meanwhile
                    call.broker.described.keep(topic, form, encoded)
            described = Metadata.Response.MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=encoded,  # type: ignore[arg-type]
            )
            if tells_operations:
                described.topic_authorized_operations = authorized_operations.of_topic(call, topic.name)
            response.topics.append(described)
        elif topic is not None:
            response.topics.append(topic)
    return response


def _partition(partition: PartitionImage, form: Form) -> Partition:
    """Describes a partition. It does not copy the tuples: that would take half as long again."""
    return Metadata.Response.MetadataResponsePartition(
        error_code=error_of(partition, form.alive, form.version),
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,  # type: ignore[arg-type]
        isr_nodes=partition.isr,  # type: ignore[arg-type]
        offline_replicas=offline(partition, form.alive),
    )


def _broker(id: int, host: str, port: int, rack: str | None) -> Broker:
    return Metadata.Response.MetadataResponseBroker(node_id=id, host=host, port=port, rack=rack)


def _departed(call: Call) -> Iterator[Broker]:
    """Yields brokers that have just left the cluster (``cluster.suspects``)."""
    for broker in call.broker.suspects.departed():
        endpoint = broker.endpoint(call.connection.listener_name)
        if endpoint is not None:
            yield _broker(broker.id, endpoint.host, endpoint.port, broker.rack)


def error_of(
    partition: PartitionImage,
    alive: Container[int],
    version: int = _FIRST_WITH_LISTENER_NOT_FOUND,
) -> int:
    """Returns the partition's error code: none if clients can reach its leader."""
    if partition.leader in alive:
        return errors.NONE
    if partition.leader == NO_LEADER or version < _FIRST_WITH_LISTENER_NOT_FOUND:
        return errors.LeaderNotAvailable.code
    return errors.ListenerNotFound.code


def offline(partition: PartitionImage, alive: Container[int]) -> list[int]:
    """Returns the replicas on brokers that are not alive."""
    return [replica for replica in partition.replicas if replica not in alive]
