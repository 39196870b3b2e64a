"""The controller's decisions about topics: pure functions from an image and a request to a Plan.

Nothing here waits, reads a clock or knows the store: a test gives an image and reads the plan. The
service performs a plan and only then answers. Every error is a ``KafkaError`` in the place of the
item it belongs to; one bad topic does not stop the others of its request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pybroker.cluster import plan as plans
from pybroker.cluster.assignment import assign, check_manual
from pybroker.cluster.elections import after_changes, elect
from pybroker.cluster.image import (
    METADATA_TOPIC,
    NO_LEADER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pybroker.cluster.plan import NewPartitions, NewTopic, Outcome, Plan, Step, TopicName
from pybroker.cluster.topic_names import Collisions, check_name
from pybroker.config import BrokerConfig, ConfigError, parse_topic_overrides, topic_config
from pybroker.coordination.interface import Operation
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's limit: a request for more is refused as a whole."""

MAX_OPERATIONS_PER_STEP = 50_000


class Controller:
    """Decides for one broker's configuration; ``new_topic_id`` and ``random_start`` are chance."""

    def __init__(
        self,
        config: BrokerConfig,
        new_topic_id: Callable[[], bytes],
        random_start: Callable[[], int],
    ) -> None:
        self._config = config
        self._new_topic_id = new_topic_id
        self._random_start = random_start

    def create_topics(
        self, image: MetadataImage, requests: Sequence[NewTopic]
    ) -> Plan[list[Outcome]]:
        """A TopicImage or an error for each request, in order."""
        wanted = sum(self._wanted_partitions(request) for request in requests)
        if wanted > MAX_PARTITIONS_PER_REQUEST:
            refusal = errors.PolicyViolation(
                f"one request creates at most {MAX_PARTITIONS_PER_REQUEST} partitions"
            )
            return Plan([refusal for _ in requests])
        names = Counter(request.name for request in requests)
        collisions = Collisions(image.topics)
        results: list[Outcome] = []
        for request in requests:
            try:
                if names[request.name] > 1:
                    raise errors.InvalidRequest("the request names this topic twice")
                results.append(self._new_topic(image, request, collisions))
                collisions.add(request.name)
            except KafkaError as error:
                results.append(error)
        accepted = [topic for topic in results if isinstance(topic, TopicImage)]
        return Plan(results, list(_creation_steps(image, accepted)))

    def _wanted_partitions(self, request: NewTopic) -> int:
        if request.assignments:
            return len(request.assignments)
        return self._partitions_or_default(request)

    def _partitions_or_default(self, request: NewTopic) -> int:
        if request.partitions == -1:
            return int(self._config["num.partitions"])
        return request.partitions

    def _new_topic(
        self, image: MetadataImage, request: NewTopic, collisions: Collisions
    ) -> TopicImage:
        check_name(request.name)
        if request.name == METADATA_TOPIC:
            raise errors.InvalidRequest(f"topic '{METADATA_TOPIC}' cannot be created")
        if image.topic(request.name) is not None:
            raise errors.TopicAlreadyExists(f"topic '{request.name}' exists")
        collisions.check(request.name)
        configs = _checked_configs(self._config, request.configs)
        places = {id: broker.rack for id, broker in image.brokers.items()}
        replicas = (
            _manual(request, places) if request.assignments else self._automatic(request, places)
        )
        return TopicImage(
            request.name, self._new_topic_id(), _partitions(replicas, image), configs
        )

    def _automatic(
        self, request: NewTopic, places: Mapping[int, str | None]
    ) -> list[tuple[int, ...]]:
        partitions = self._partitions_or_default(request)
        if partitions < 1:
            raise errors.InvalidPartitions("a topic has at least 1 partition")
        factor = request.replication_factor
        if factor == -1:
            factor = int(self._config["default.replication.factor"])
        return assign(places, partitions, factor, start=self._random_start())

    def delete_topics(
        self, image: MetadataImage, requests: Sequence[TopicName]
    ) -> Plan[list[Outcome]]:
        """The TopicImage that goes, or an error, for each request."""
        found: list[Outcome] = [_find(image, request) for request in requests]
        times = Counter(topic.name for topic in found if isinstance(topic, TopicImage))
        results: list[Outcome] = [
            errors.InvalidRequest("the request names this topic twice")
            if isinstance(topic, TopicImage) and times[topic.name] > 1
            else topic
            for topic in found
        ]
        gone = {topic.name: topic for topic in results if isinstance(topic, TopicImage)}
        return Plan(results, list(_deletion_steps(gone.values())))

    def create_partitions(
        self, image: MetadataImage, requests: Sequence[NewPartitions]
    ) -> Plan[list[Outcome]]:
        """The TopicImage with its new partitions, or an error, for each request."""
        names = Counter(request.name for request in requests)
        results: list[Outcome] = []
        for request in requests:
            try:
                if names[request.name] > 1:
                    raise errors.InvalidRequest("the request names this topic twice")
                results.append(self._grown(image, request))
            except KafkaError as error:
                results.append(error)
        grown = [topic for topic in results if isinstance(topic, TopicImage)]
        return Plan(results, [_growth_step(image, grown)] if grown else [])

    def _grown(self, image: MetadataImage, request: NewPartitions) -> TopicImage:
        topic = image.topic(request.name)
        if topic is None:
            raise errors.UnknownTopicOrPartition(f"there is no topic '{request.name}'")
        existing = len(topic.partitions)
        added = request.total - existing
        if added <= 0:
            relation = "already has" if added == 0 else "has more:"
            raise errors.InvalidPartitions(f"the topic {relation} {existing} partition(s)")
        if added > MAX_PARTITIONS_PER_REQUEST:
            raise errors.PolicyViolation(
                f"one request creates at most {MAX_PARTITIONS_PER_REQUEST} partitions"
            )
        replicas = self._added_replicas(image, request, topic, added)
        partitions = _partitions(replicas, image, existing)
        return topic._replace(partitions=topic.partitions + partitions)

    def _added_replicas(
        self, image: MetadataImage, request: NewPartitions, topic: TopicImage, added: int
    ) -> list[tuple[int, ...]]:
        places = {id: broker.rack for id, broker in image.brokers.items()}
        factor = len(topic.partitions[0].replicas)
        if request.assignments is None:
            start, first = self._random_start(), len(topic.partitions)
            return assign(places, added, factor, start=start, first=first)
        if len(request.assignments) != added:
            raise errors.InvalidReplicaAssignment(
                f"{added} partition(s) are added, {len(request.assignments)} assigned"
            )
        check_manual(request.assignments, places, factor)
        return list(request.assignments)

    def change_brokers(
        self,
        image: MetadataImage,
        brokers: Mapping[int, BrokerRegistration],
        restarted: Iterable[int] = (),
    ) -> Plan[None]:
        """Elections after the live brokers became ``brokers``.

        A broker with another epoch than before was restarted, as are those in ``restarted``.
        """
        again = set(restarted) | {
            id
            for id, broker in brokers.items()
            if id in image.brokers and image.brokers[id].epoch != broker.epoch
        }
        gone = dict.fromkeys(image.brokers.keys() - brokers.keys())
        changed = after_changes(image, brokers.keys(), again, self._is_unclean_allowed)
        delta = MetadataDelta(changed=changed, brokers={**gone, **brokers})
        return Plan(None, [Step(_updates(image, changed), delta)])

    def _is_unclean_allowed(self, topic: TopicImage) -> bool:
        return topic_config(self._config, topic.configs).unclean_leader_election_enable

    def elect_leaders(
        self, image: MetadataImage, partitions: Sequence[TopicPartition], *, unclean: bool
    ) -> Plan[dict[TopicPartition, KafkaError | None]]:
        """ElectLeaders: the preferred replica, or with ``unclean`` any live one."""
        results: dict[TopicPartition, KafkaError | None] = {}
        changed: dict[str, TopicImage] = {}
        for tp in partitions:
            topic = changed.get(tp.topic) or image.topic(tp.topic)
            try:
                new = _elected(topic, tp, image.brokers.keys(), unclean=unclean)
            except KafkaError as error:
                results[tp] = error
                continue
            assert topic is not None
            old = topic.partitions
            parts = (*old[: tp.partition], new, *old[tp.partition + 1 :])
            changed[tp.topic] = topic._replace(partitions=parts)
            results[tp] = None
        step = Step(_updates(image, changed), MetadataDelta(changed=changed))
        return Plan(results, [step] if changed else [])


def _checked_configs(
    config: BrokerConfig, configs: Iterable[tuple[str, str | None]]
) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, text in configs:
        if text is None:
            raise errors.InvalidConfig(f"{name} has no value")
        checked[name] = text
    try:
        parse_topic_overrides(checked)
        topic_config(config, checked)
    except ConfigError as error:
        raise errors.InvalidConfig(str(error)) from error
    return checked


def _manual(
    request: NewTopic, places: Mapping[int, str | None]
) -> list[tuple[int, ...]]:
    if request.partitions != -1:
        raise errors.InvalidRequest("with manual assignments the number of partitions is -1")
    if request.replication_factor != -1:
        raise errors.InvalidRequest("with manual assignments the replication factor is -1")
    by_index = dict(request.assignments)
    if sorted(index for index, _ in request.assignments) != list(range(len(request.assignments))):
        raise errors.InvalidReplicaAssignment("partitions are not numbered 0, 1, 2, …")
    replicas = [by_index[index] for index in range(len(by_index))]
    check_manual(replicas, places, len(replicas[0]))
    return replicas


def _partitions(
    replicas: Sequence[tuple[int, ...]], image: MetadataImage, first: int = 0
) -> tuple[PartitionImage, ...]:
    """New partitions: all live replicas in sync, the first of them leads."""
    partitions = []
    for index, members in enumerate(replicas, first):
        isr = tuple(broker for broker in members if broker in image.brokers)
        partitions.append(PartitionImage(index, isr[0], 0, 0, members, isr))
    return tuple(partitions)


def _find(image: MetadataImage, request: TopicName) -> Outcome:
    if (request.name is None) == (request.id is None):
        return errors.InvalidRequest("name a topic by its name or by its id")
    if request.id is not None:
        topic = image.topic_by_id(request.id)
        return topic or errors.UnknownTopicId("there is no topic of this id")
    topic = image.topic(request.name or "")
    return topic or errors.UnknownTopicOrPartition(f"there is no topic '{request.name}'")


def _elected(
    topic: TopicImage | None, tp: TopicPartition, alive: Iterable[int], *, unclean: bool
) -> PartitionImage:
    if topic is None or not 0 <= tp.partition < len(topic.partitions):
        raise errors.UnknownTopicOrPartition(f"there is no partition {tp}")
    partition = topic.partitions[tp.partition]
    live = frozenset(alive)
    if unclean:
        if partition.leader != NO_LEADER:
            raise errors.ElectionNotNeeded(f"{tp} has a leader")
        elected = elect(partition, live, unclean=True)
        if elected.leader == NO_LEADER:
            raise errors.EligibleLeadersNotAvailable(f"no replica of {tp} is alive")
        return elected
    if partition.leader == partition.replicas[0]:
        raise errors.ElectionNotNeeded(f"{tp} is led by its preferred replica")
    elected = elect(partition, live)
    if elected.leader != partition.replicas[0]:
        raise errors.PreferredLeaderNotAvailable(f"{tp}: {partition.replicas[0]} is not in sync")
    return elected


def _updates(image: MetadataImage, changed: Mapping[str, TopicImage]) -> list[Operation]:
    operations: list[Operation] = []
    for name, topic in changed.items():
        operations += plans.update_partitions(image.topics[name], topic, image.controller_epoch)
    return operations


def _creation_steps(image: MetadataImage, topics: Iterable[TopicImage]) -> Iterable[Step]:
    operations: list[Operation] = []
    made: dict[str, TopicImage] = {}
    for topic in topics:
        operations += plans.create_topic(topic, image.controller_epoch)
        made[topic.name] = topic
        if len(operations) >= MAX_OPERATIONS_PER_STEP:
            yield Step(operations, MetadataDelta(changed=made))
            operations, made = [], {}
    if made:
        yield Step(operations, MetadataDelta(changed=made))


def _deletion_steps(topics: Iterable[TopicImage]) -> Iterable[Step]:
    operations: list[Operation] = []
    gone: dict[str, TopicImage] = {}
    for topic in topics:
        operations += plans.delete_topic(topic)
        gone[topic.name] = topic
        if len(operations) >= MAX_OPERATIONS_PER_STEP:
            yield Step(operations, MetadataDelta(deleted=gone))
            operations, gone = [], {}
    if gone:
        yield Step(operations, MetadataDelta(deleted=gone))


def _growth_step(image: MetadataImage, topics: Iterable[TopicImage]) -> Step:
    operations: list[Operation] = []
    changed = {topic.name: topic for topic in topics}
    for topic in changed.values():
        operations.append(plans.set_assignments(topic))
        for partition in topic.partitions[len(image.topics[topic.name].partitions) :]:
            operations += plans.create_partition(topic.name, partition, image.controller_epoch)
    return Step(operations, MetadataDelta(changed=changed))

