"""The controller's decisions about topics: pure functions from an image and a request to a Plan.

No function here waits, reads a clock or knows the store: a test passes an image and reads the plan.
``cluster.controller`` performs a plan and only then answers. Every error is a ``KafkaError`` in the place of its item;
one invalid topic does not affect the others of its request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from pybroker.cluster.decisions.assignment import assign, check_manual
from pybroker.cluster.decisions.elections import Elections, Standing, after_changes, elect
from pybroker.cluster.decisions.isr_changes import IsrChange, IsrOutcome, alter_partition
from pybroker.cluster.decisions.plan import (
    NewPartitions,
    NewTopic,
    Outcome,
    PartitionChanges,
    Plan,
    Step,
    TopicName,
)
from pybroker.cluster.decisions.preferred import imbalanced
from pybroker.cluster.decisions.reassignments import Reassignment, alter_reassignments, settled
from pybroker.cluster.decisions.topic_names import Collisions, check_name, unknown_topic
from pybroker.cluster.decisions.topic_rules import TopicRules
from pybroker.cluster.decisions.topic_steps import creation_steps, deletion_of, growth_steps
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import (
    METADATA_TOPIC,
    NO_LEADER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
    boots_of,
)
from pybroker.config import BrokerConfig, ConfigError, parse_topic_overrides, topic_config
from pybroker.store.interface import Set
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})
MAX_PARTITIONS_PER_REQUEST = 10_000
"""How many partitions a request may create, as in Kafka. A request for more is refused as a whole."""


class TopicController:
    """Makes decisions with one broker's configuration; ``new_topic_id`` and ``random_start`` return random values."""

    def __init__(
        self,
        config: BrokerConfig,
        new_topic_id: Callable[[], bytes],
        random_start: Callable[[], int],
    ) -> None:
        self._config = config
        self._new_topic_id = new_topic_id
        self._random_start = random_start

    def _rules(self, image: MetadataImage, brokers: Mapping[int, BrokerRegistration] | None = None) -> TopicRules:
        return TopicRules(self._config, image, image.brokers if brokers is None else brokers)

    def create_topics(
        self, image: MetadataImage, requests: Sequence[NewTopic]
    ) -> Plan[list[Outcome]]:
        """Creates topics. Returns a TopicImage or an error for each request, in order."""
        wanted = sum(self._wanted_partitions(request) for request in requests)
        if wanted > MAX_PARTITIONS_PER_REQUEST:
            refusal = errors.PolicyViolation(
                f"one request may create at most {MAX_PARTITIONS_PER_REQUEST} partitions"
            )
            return Plan([refusal for _ in requests])
        names = Counter(request.name for request in requests)
        collisions = Collisions(image.topics, len(requests))
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
        return Plan(results, creation_steps(image, accepted))

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
            raise errors.TopicAlreadyExists(f"Topic '{request.name}' already exists.")
        collisions.check(request.name)
        configs = _checked_configs(self._config, request.configs)
        places = places_of(image)
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
            raise errors.InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
        factor = request.replication_factor
        if factor == -1:
            factor = int(self._config["default.replication.factor"])
        return assign(places, partitions, factor, start=self._random_start())

    def delete_topics(
        self, image: MetadataImage, requests: Sequence[TopicName], torn: Mapping[str, Sequence[str]] = NOTHING
    ) -> Plan[list[Outcome]]:
        """Deletes topics. Returns the deleted TopicImage or an error for each request.

        ``torn`` has the remaining nodes of topics whose nodes are incomplete.
        """
        found: list[Outcome] = [_find(image, request) for request in requests]
        named = [
            topic.name if isinstance(topic, TopicImage) else request
            for topic, request in zip(found, requests, strict=True)
        ]
        times = Counter(named)
        results: list[Outcome] = [
            errors.InvalidRequest("the request names this topic twice") if times[each] > 1 else topic
            for topic, each in zip(found, named, strict=True)
        ]
        gone = {topic.name: topic for topic in results if isinstance(topic, TopicImage)}
        return Plan(results, *deletion_of(gone.values(), torn))

    def create_partitions(
        self, image: MetadataImage, requests: Sequence[NewPartitions]
    ) -> Plan[list[Outcome]]:
        """Adds partitions. Returns the TopicImage with its new partitions, or an error, for each request."""
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
        return Plan(results, growth_steps(image, grown))

    def _grown(self, image: MetadataImage, request: NewPartitions) -> TopicImage:
        topic = image.topic(request.name)
        if topic is None:
            raise unknown_topic(request.name)
        existing = len(image.writable(topic).partitions)
        added = request.total - existing
        if added <= 0:
            if added == 0:
                raise errors.InvalidPartitions(f"Topic already has {existing} partition(s).")
            has = f"The topic {request.name} currently has {existing} partition(s)"
            raise errors.InvalidPartitions(f"{has}; {request.total} would not be an increase.")
        if added > MAX_PARTITIONS_PER_REQUEST:
            raise errors.PolicyViolation(
                f"one request may create at most {MAX_PARTITIONS_PER_REQUEST} partitions"
            )
        replicas = self._added_replicas(image, request, topic, added)
        partitions = _partitions(replicas, image, existing)
        return topic._replace(partitions=topic.partitions + partitions)

    def _added_replicas(
        self, image: MetadataImage, request: NewPartitions, topic: TopicImage, added: int
    ) -> list[tuple[int, ...]]:
        places = places_of(image)
        factor = len(topic.partitions[0].target)
        if request.assignments is None:
            start, first = self._random_start(), len(topic.partitions)
            return assign(places, added, factor, start=start, first=first)
        if len(request.assignments) != added:
            raise errors.InvalidReplicaAssignment(
                f"{added} partition(s) are added, but {len(request.assignments)} are assigned"
            )
        check_manual(request.assignments, places, factor)
        return list(request.assignments)

    def begin_term(self, image: MetadataImage, node_id: int, epoch: int) -> Step:
        """Returns the step that publishes which broker is the controller."""
        known = journal.Known((node_id, epoch), image.brokers, image.boots)
        write = Set(znodes.KNOWN, journal.encode_known(known))
        return Step([write], MetadataDelta(controller=known.controller))

    def change_brokers(
        self, image: MetadataImage, brokers: Mapping[int, BrokerRegistration]
    ) -> Plan[Elections]:
        """Holds elections because ``brokers`` are now the live brokers. Compared with ``image``, some have gone, are
        leaving, or have restarted.
        """
        rules = self._rules(image, brokers)
        changes = PartitionChanges(image)
        elections = Elections()
        standing = Standing.of(brokers, image.brokers, image.boots)
        for topic, partitions in after_changes(image, standing, rules):
            for partition in partitions:
                before, here = topic.partitions[partition.index], standing.at(topic.id, partition.index)
                after = settled(before, partition, here.fit, rules.min_isr(topic, partition))
                elections.add(topic.name, before, changes.add(topic, after), here.lost)
        if brokers == image.brokers and not changes:
            return Plan(elections)
        gone = dict.fromkeys(image.brokers.keys() - brokers.keys())
        news = {id: broker for id, broker in brokers.items() if image.brokers.get(id) != broker}
        controller = (image.controller_id, image.controller_epoch)
        boots = {**image.boots, **boots_of(brokers)}
        known = Set(znodes.KNOWN, journal.encode_known(journal.Known(controller, brokers, boots)))
        return Plan(elections, changes.steps(Step([known], MetadataDelta(brokers={**gone, **news}))))

    def alter_partition(
        self,
        image: MetadataImage,
        leader: int,
        broker_epoch: int,
        changes: Sequence[IsrChange],
    ) -> Plan[list[IsrOutcome]]:
        """Decides on a leader's proposals: see ``isr_changes``."""
        rules = self._rules(image)
        return alter_partition(image, leader, broker_epoch, changes, rules)

    def alter_reassignments(
        self, image: MetadataImage, requests: Sequence[Reassignment], *, may_change_factor: bool
    ) -> Plan[list[KafkaError | None]]:
        """Begins or cancels reassignments: see ``reassignments``."""
        rules = self._rules(image)
        return alter_reassignments(image, requests, rules, may_change_factor=may_change_factor)

    def elect_leaders(
        self, image: MetadataImage, partitions: Sequence[TopicPartition], *, unclean: bool
    ) -> Plan[dict[TopicPartition, KafkaError | None]]:
        """Elects leaders: the preferred replica, or with ``unclean`` any live one."""
        results: dict[TopicPartition, KafkaError | None] = {}
        rules = self._rules(image)
        standing = Standing.of(image.brokers, image.brokers, image.boots)
        changes = PartitionChanges(image)
        for tp in partitions:
            try:
                topic = image.writable(image.topic_of(*tp))
                here = standing.at(topic.id, tp.partition)
                partition = changes.current(topic, tp.partition)
                min_isr = rules.min_isr(topic, partition)
                elected = _elected(partition, tp, here.fit, unclean, min_isr)
                changes.add(topic, settled(partition, elected, here.fit, min_isr))
                results[tp] = None
            except KafkaError as error:
                results[tp] = error
        return Plan(results, changes.steps())

    def rebalance(self, image: MetadataImage, percentage: int) -> Plan[None]:
        """Elects preferred leaders if other brokers lead more than ``percentage`` of the partitions of one."""
        away = imbalanced(image, percentage)
        return Plan(None, self.elect_leaders(image, away, unclean=False).steps)


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
        raise errors.InvalidRequest("with manual assignments the number of partitions must be -1")
    if request.replication_factor != -1:
        raise errors.InvalidRequest("with manual assignments the replication factor must be -1")
    by_index = dict(request.assignments)
    if sorted(index for index, _ in request.assignments) != list(range(len(request.assignments))):
        raise errors.InvalidReplicaAssignment("partitions must be numbered 0, 1, 2, …")
    replicas = [by_index[index] for index in range(len(by_index))]
    check_manual(replicas, places, len(replicas[0]))
    return replicas


def _partitions(
    replicas: Sequence[tuple[int, ...]], image: MetadataImage, first: int = 0
) -> tuple[PartitionImage, ...]:
    """Returns new partitions: all live replicas are in sync, and the first of them leads."""
    partitions = []
    for index, members in enumerate(replicas, first):
        isr = tuple(broker for broker in members if broker in image.brokers)
        partitions.append(PartitionImage(index, isr[0], 0, 0, members, isr))
    return tuple(partitions)


def places_of(image: MetadataImage) -> dict[int, str | None]:
    """Returns the racks, or else the machines, of the brokers that may take new replicas."""
    return {id: broker.rack or broker.machine or None for id, broker in image.brokers.items() if not broker.is_leaving}


def _find(image: MetadataImage, request: TopicName) -> Outcome:
    if (request.name is None) == (request.id is None):
        return errors.InvalidRequest("name a topic either by its name or by its id")
    if request.id is not None:
        topic = image.topic_by_id(request.id)
        return topic or errors.UnknownTopicId("no topic has this id")
    topic = image.topic(request.name or "")
    return topic or unknown_topic(request.name)


def with_deleted(
    outcomes: Iterable[Outcome], requests: Iterable[TopicName], before: MetadataImage, between: MetadataImage
) -> list[Outcome]:
    """Returns the outcomes of deletions that were decided twice: the first time from ``before``, the second time, after
    some deletions had been performed, from ``between``.
    """
    return [_deleted(request, before, between) or each for each, request in zip(outcomes, requests, strict=True)]


def _deleted(request: TopicName, before: MetadataImage, between: MetadataImage) -> TopicImage | None:
    topic = _find(before, request)
    return topic if isinstance(topic, TopicImage) and topic.id not in between.names else None


def _elected(
    partition: PartitionImage, tp: TopicPartition, fit: Collection[int], unclean: bool, min_isr: int
) -> PartitionImage:
    if unclean:
        if partition.leader != NO_LEADER:
            raise errors.ElectionNotNeeded(f"{tp} has a leader")
        elected = elect(partition, fit, unclean=True, min_isr=min_isr)
        if elected.leader == NO_LEADER:
            raise errors.EligibleLeadersNotAvailable(f"no replica of {tp} is alive")
        return elected
    if partition.leader == partition.replicas[0]:
        raise errors.ElectionNotNeeded(f"{tp} is already led by its preferred replica")
    elected = elect(partition, fit, min_isr=min_isr)
    if elected.leader != partition.replicas[0]:
        text = f"the preferred replica of {tp}, {partition.replicas[0]}, is not in sync"
        raise errors.PreferredLeaderNotAvailable(text)
    return elected
