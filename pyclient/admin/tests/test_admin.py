"""The admin client against a broker: ours, or with --broker=kafka the real one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from pyclient import Admin, TopicPartition, aio
from pyclient.admin import (
    AlterConfigOp,
    AlterOp,
    ConfigResource,
    Election,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.protocol.errors import (
    BrokerNotAvailable,
    ElectionNotNeeded,
    GroupIdNotFound,
    InvalidConfig,
    InvalidTopicException,
    InvalidUpdateVersion,
    KafkaError,
    NonEmptyGroup,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from pyclient.tests.brokers import broker, unique  # noqa: F401
from pyclient.tests.support import until

OF_T = ConfigResource(ResourceType.TOPIC, "t")
NOW_MS = int(time.time() * 1000) - 60_000
"""The timestamp of records, which is late enough that retention keeps them."""


def seen(ask: Callable[[], Any]) -> Any:
    """Returns the result of ``ask`` once it is true. A broker of Kafka may lag behind its controller."""

    def look() -> Any:
        with contextlib.suppress(KafkaError):
            return ask()

    return until(look)


@pytest.fixture(scope="module")
def admin(broker):  # noqa: F811
    with Admin(broker.bootstrap) as made:
        made.connect(30)
        yield made


@pytest.fixture
def topic(admin):
    name = unique("t")
    admin.create_topics(name, num_partitions=2, replication_factor=1)
    seen(lambda: admin.describe_topics(name))
    return name


def produce(bootstrap: str, topic: str, count: int, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=NOW_MS + number)
    producer.flush(30)
    return producer


def test_topics_are_created_described_extended_and_deleted(admin):
    name = unique("life")
    created = admin.create_topics(
        [NewTopic(name, 2, 1, configs={"retention.ms": "60000"})], validate_only=False
    )
    assert created[name].num_partitions == 2
    described = seen(lambda: admin.describe_topics(name)[name])
    assert described.topic_id == created[name].topic_id
    assert [row.partition for row in described.partitions] == [0, 1]
    assert all(row.leader in row.isr for row in described.partitions)
    assert [(row.elr, row.last_known_elr) for row in described.partitions] == [((), ())] * 2
    assert admin.list_topics()[name].topic_id == described.topic_id
    admin.create_partitions({name: 5})
    seen(lambda: len(admin.describe_topics(name)[name].partitions) == 5)
    admin.delete_topics(name)
    seen(lambda: name not in admin.list_topics())
    with pytest.raises(UnknownTopicOrPartition, match=name):
        admin.describe_topics(name)


def test_validate_only_creates_no_topic(admin):
    name = unique("dry")
    admin.create_topics(name, num_partitions=1, validate_only=True)
    assert name not in admin.list_topics()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda admin: admin.describe_configs("t"), r"'t' is not a ConfigResource\(ResourceType.TOPIC, name\)"),
        (lambda admin: admin.incremental_alter_configs({OF_T: {"retention.ms": "1"}}), "is not an AlterConfigOp"),
        (lambda admin: admin.list_offsets(["t"]), r"\['t'\] is not a mapping of TopicPartition"),
        (lambda admin: admin.list_offsets({"t": "latest"}), "'t' is not a TopicPartition"),
        (lambda admin: admin.delete_records([("t", 0)]), "is not a mapping of TopicPartition"),
        (lambda admin: admin.create_partitions([3]), r"\[3\] is not a mapping {topic: number of partitions}"),
    ],
)
def test_a_wrong_argument_type_is_refused_and_the_right_one_named(admin, ask, says):
    with pytest.raises(TypeError, match=says):
        ask(admin)


def test_the_first_error_is_raised_or_returned_in_the_results(admin, topic):
    with pytest.raises(TopicAlreadyExists):
        admin.create_topics(topic)
    other = unique("other")
    results = admin.create_topics([topic, "bad/name", other], check=False)
    assert list(results) == [other]
    assert isinstance(results.errors[topic], TopicAlreadyExists)
    with pytest.raises(InvalidTopicException):
        results["bad/name"]


def test_offsets_are_listed_by_spec_and_by_time(admin, broker, topic):  # noqa: F811
    produce(broker.bootstrap, topic, 10)
    first = TopicPartition(topic, 0)

    def offset(spec: int | str) -> int:
        return admin.list_offsets({first: spec})[first].offset

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 10
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 9
    assert offset(NOW_MS + 4) == 4
    assert offset(NOW_MS + 999_999) == -1
    assert admin.delete_records({first: 7})[first] == 7
    assert offset(OffsetSpec.EARLIEST) == 7
    assert (offset("earliest"), offset("latest"), offset("max-timestamp")) == (7, 10, 9)
    with pytest.raises(ValueError, match="'first' is not one of latest, earliest, max-timestamp"):
        offset("first")
    with pytest.raises(TypeError, match="neither an OffsetSpec nor an int"):
        offset(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-6 is neither an OffsetSpec nor a time"):
        offset(-6)
    empty = TopicPartition(topic, 1)
    both = admin.list_offsets(dict.fromkeys([first, empty], OffsetSpec.LATEST))
    assert [both[each].offset for each in (first, empty)] == [10, 0]


def test_list_offsets_names_the_partition_that_does_not_exist(admin, topic):
    with pytest.raises(UnknownTopicOrPartition, match=f"{topic}-9"):
        admin.list_offsets({TopicPartition(topic, 9): OffsetSpec.LATEST})


def test_configs_of_a_missing_topic_fail_without_waiting(admin):
    """The time-out of the call is longer than that of the test."""
    resource = ConfigResource(ResourceType.TOPIC, unique("missing"))
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_configs(resource, timeout=600)
    with pytest.raises(UnknownTopicOrPartition):
        admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", "1000")]}, timeout=600)


def test_configs_are_changed_key_by_key(admin, topic):
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def value(key: str) -> str | None:
        return admin.describe_configs(resource)[resource][key].value

    admin.incremental_alter_configs(
        {resource: [AlterConfigOp("retention.ms", "5000"), AlterConfigOp("max.message.bytes", "777")]}
    )
    admin.incremental_alter_configs({resource: [AlterConfigOp("cleanup.policy", "compact", AlterOp.APPEND)]})
    seen(lambda: value("cleanup.policy") == "delete,compact")
    admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", None, AlterOp.DELETE)]})
    seen(lambda: value("retention.ms") == "604800000")
    assert value("max.message.bytes") == "777"
    with pytest.raises(InvalidConfig):
        admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", "soon")]})
    entry = admin.describe_configs(resource, keys=["retention.ms"], include_synonyms=True)
    assert list(entry[resource]) == ["retention.ms"]
    assert entry[resource]["retention.ms"].is_default
    seen(lambda: resource in admin.list_config_resources([ResourceType.TOPIC]))


def test_a_broker_describes_itself(admin):
    cluster = admin.describe_cluster()
    row = cluster.brokers[0]
    resource = ConfigResource(ResourceType.BROKER, str(row.id))
    entries = admin.describe_configs(resource, include_documentation=True)[resource]
    assert entries["log.retention.hours"].value == "168"
    assert admin.api_versions(row.id)["Metadata"].usable == 13
    assert admin.describe_features().finalized["transaction.version"].max_version == 2


def test_a_broker_that_does_not_exist_raises_broker_not_available(admin):
    with pytest.raises(BrokerNotAvailable, match="broker 99"):
        admin.describe_configs(ConfigResource(ResourceType.BROKER, "99"))
    with pytest.raises(BrokerNotAvailable):
        admin.describe_log_dirs([99])


def test_offsets_of_a_group_are_set_listed_and_deleted(admin, topic):
    group = unique("g")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_consumer_group_offsets(group, {first: 5, second: OffsetAndMetadata(7, 0, "note")})
    listed = admin.list_consumer_group_offsets(group)
    assert listed == {first: OffsetAndMetadata(5), second: OffsetAndMetadata(7, 0, "note")}
    assert admin.list_consumer_group_offsets(group, [first, TopicPartition(topic, 8)]) == {
        first: OffsetAndMetadata(5)
    }
    many = admin.list_offsets_of_consumer_groups([group, unique("none")])
    assert [len(offsets) for offsets in many.values()] == [2, 0]
    admin.delete_consumer_group_offsets(group, [first])
    assert list(admin.list_consumer_group_offsets(group)) == [second]
    described = admin.describe_consumer_groups(group)[group]
    assert (described.state, described.type, described.members) == ("Empty", "Classic", ())
    assert group in {row.group_id for row in admin.list_consumer_groups(states=["Empty"])}
    assert group not in {row.group_id for row in admin.list_groups(states=["Stable"])}
    admin.delete_consumer_groups(group)
    with pytest.raises(GroupIdNotFound):
        admin.describe_consumer_groups(group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_described_and_protected(admin, broker, topic, protocol):  # noqa: F811
    group = unique(protocol)
    produce(broker.bootstrap, topic, 1)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    described = admin.describe_consumer_groups(group)[group]
    assert described.type.lower() == protocol
    assert described.state == "Stable"
    (member,) = described.members
    assert set(member.assignment) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    with pytest.raises(NonEmptyGroup):
        admin.delete_consumer_groups(group)
    with pytest.raises(UnknownMemberId):
        admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 0})
    if protocol == "classic":
        admin.remove_members_from_consumer_group(group, reason="test")
    consumer.close()


def test_an_open_transaction_is_listed_described_and_aborted(admin, broker, topic):  # noqa: F811
    name, first = unique("tx"), TopicPartition(topic, 0)
    produce(broker.bootstrap, topic, 3, **{"transactional.id": name})
    (listed,) = [row for row in admin.list_transactions() if row.transactional_id == name]
    described = admin.describe_transactions(name)[name]
    assert (listed.state, described.state) == ("Ongoing", "Ongoing")
    assert described.partitions == (first,)
    (producer,) = admin.describe_producers([first])[first]
    assert (producer.producer_id, producer.current_txn_start_offset) == (listed.producer_id, 0)

    def stable() -> int:
        found = admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")
        return found[first].offset

    assert stable() == 0
    assert admin.fence_producers(name)[name].producer_epoch > producer.producer_epoch
    seen(lambda: stable() == 4)  # Kafka answers before the markers are written
    with pytest.raises(TransactionalIdNotFound):
        admin.describe_transactions(unique("none"))


def test_an_unknown_feature_is_refused(admin):
    admin.update_features({"transaction.version": 2}, validate_only=True)
    with pytest.raises(InvalidUpdateVersion):
        admin.update_features({"no.such.feature": 2})


def test_log_dirs_are_described_and_needless_elections_refused(admin, broker, topic):  # noqa: F811
    produce(broker.bootstrap, topic, 10)
    first = TopicPartition(topic, 0)
    ((_, dirs),) = admin.describe_log_dirs(partitions=[first]).items()
    ((_, described),) = dirs.items()
    assert described.replicas[first].size > 0
    assert described.total_bytes > 0
    with pytest.raises(ElectionNotNeeded):
        admin.elect_leaders(Election.PREFERRED, [first])


def test_the_asyncio_admin_has_the_same_methods(broker):  # noqa: F811
    async def main() -> None:
        name = unique("aio")
        async with aio.Admin(broker.bootstrap) as admin:
            await admin.connect(30)
            await admin.create_topics(name)
            while name not in await admin.list_topics():
                pass
            described, listed = await asyncio.gather(
                admin.describe_topics(name), admin.list_topics()
            )
            assert described[name].topic_id == listed[name].topic_id
            await admin.delete_topics(name)

    asyncio.run(main())
    public = {name for name in dir(aio.Admin) if not name.startswith("_")}
    assert public == {name for name in dir(Admin) if not name.startswith("_")}
