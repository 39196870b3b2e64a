"""Wrong arguments raise an error at once, by name, without a broker, and have no lasting effect."""

from __future__ import annotations

import asyncio
import time

import pytest

from pyclient import Admin, ConfigError, Consumer, Producer, RebalanceListener, TopicPartition, aio
from pyclient.admin.types import AlterConfigOp, ConfigResource, ResourceType
from pyclient.errors import InvalidTopicException, KafkaError
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S

NOWHERE = "127.0.0.1:1"
NO_TOPICS = (None, "", "..", "a b", "ä/", "\udc80", "x" * 250)
SENDS = (
    (lambda producer, topic: producer.send(topic, b"v")),
    (lambda producer, topic: producer.send_many(topic, [b"v"])),
    (lambda producer, topic: producer.partitions_for(topic)),
)


@pytest.fixture
def nowhere():
    """Yields a producer whose waits would take a minute."""
    with Producer(NOWHERE) as made:
        yield made


@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize("topic", NO_TOPICS)
def test_an_invalid_topic_name_is_refused(nowhere, send, topic):
    with pytest.raises(InvalidTopicException, match="topic "):
        send(nowhere, topic)


@pytest.mark.parametrize("send", SENDS)
def test_a_topic_that_is_not_a_string_is_refused(nowhere, send):
    with pytest.raises(TypeError, match="topic is bytes, not str"):
        send(nowhere, b"fresh")


def test_an_invalid_topic_is_refused_before_the_serializer_is_called(nowhere):
    with Producer(NOWHERE, value_serializer="str") as producer, pytest.raises(TypeError, match="topic is int"):
        producer.send(5, "v")  # type: ignore[arg-type]


def test_a_pattern_given_as_a_topic_name_is_refused():
    with Consumer(NOWHERE) as consumer, pytest.raises(KafkaError, match=r"for a pattern, pass re\.compile"):
        consumer.subscribe("^flights.*")


@pytest.mark.parametrize("offsets", [3, [3], "flights"])
def test_a_commit_takes_a_mapping_or_a_record(offsets):
    with Consumer(NOWHERE, group_id="g") as consumer, pytest.raises(TypeError, match="has no offsets: pass a mapping"):
        consumer.commit(offsets)


@pytest.mark.parametrize("face", [aio.Producer, aio.Consumer, aio.Admin])
def test_asyncio_clients_must_be_created_in_a_coroutine(face):
    with pytest.raises(RuntimeError, match=rf"create an aio\.{face.__name__} in a coroutine"):
        face(NOWHERE)


def test_an_invalid_topic_does_not_affect_later_sends(broker, new_topic):
    with Producer(broker.bootstrap) as producer:
        for topic in (*NO_TOPICS, b"fresh"):
            with pytest.raises((KafkaError, TypeError)):
                producer.send(topic, b"v")
        assert producer.send(new_topic(), b"v").result(PATIENCE_S).offset == 0


def test_the_asyncio_producer_raises_the_same_errors():
    async def check() -> None:
        async with aio.Producer(NOWHERE) as producer:
            with pytest.raises(TypeError, match="topic is bytes, not str"):
                await producer.send(b"fresh", b"v")  # type: ignore[arg-type]
            with pytest.raises(InvalidTopicException):
                await producer.send_many("", [b"v"])
            with pytest.raises(TypeError, match="milliseconds"):
                await producer.send_many("t", [b"v"], timestamp=time.time())  # type: ignore[arg-type]

    asyncio.run(check())


@pytest.mark.parametrize("send", SENDS[:2])
def test_a_timestamp_that_is_not_whole_milliseconds_is_refused(nowhere, send):
    def at(timestamp):
        return lambda producer: (
            producer.send("t", b"v", timestamp=timestamp)
            if send is SENDS[0]
            else producer.send_many("t", [b"v"], timestamp=timestamp)
        )

    with pytest.raises(TypeError, match=r"timestamp is float, not int: .*int\(time.time\(\) \* 1000\)"):
        at(time.time())(nowhere)
    with pytest.raises(TypeError, match="timestamp is str"):
        at("now")(nowhere)
    with pytest.raises(ValueError, match="timestamp -1 is below 0"):
        at(-1)(nowhere)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ([("a", "1")], "header 'a' is str, not bytes"),
        ({"n": 5}, "header 'n' is int, not bytes"),
        ([(b"a", b"1")], "the name of header b'a' is bytes, not str"),
        (["ab", b"c"], r"the name|no pair|is str"),
        ([("a",)], r"\('a',\) is not a pair"),
    ],
)
def test_headers_that_are_not_pairs_are_refused_and_named(nowhere, headers, told):
    with pytest.raises(TypeError, match=told):
        nowhere.send("t", b"v", headers=headers)


@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_a_dict_given_as_address_is_refused(make):
    with pytest.raises(ConfigError, match="config="):
        make({"bootstrap.servers": NOWHERE})


@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_addresses_may_be_given_by_name_and_only_once(make):
    make(bootstrap_servers=NOWHERE).close()
    with pytest.raises(ConfigError, match=r"twice, 'flights'.*topics="):
        make("flights", bootstrap_servers=NOWHERE)


@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_the_error_about_a_missing_address_names_only_our_setting(make):
    with pytest.raises(ConfigError, match=r"^bootstrap.servers is missing: give it as the first argument, 'localhost"):
        make()


def test_topics_given_as_settings_are_refused():
    with pytest.raises(ConfigError, match=r"config='u' is not a mapping of settings; topics of a consumer are topics="):
        Consumer("t", "u", bootstrap_servers=NOWHERE)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [TopicPartition("t", 0), ("t", 0), "t"])
@pytest.mark.parametrize(
    "ask",
    [
        Consumer.assign,
        Consumer.pause,
        Consumer.resume,
        Consumer.seek_to_beginning,
        Consumer.seek_to_end,
        Consumer.beginning_offsets,
        Consumer.end_offsets,
        Consumer.committed,
    ],
)
def test_a_single_partition_in_place_of_a_list_is_refused(ask, given):
    with Consumer(NOWHERE, group_id="g") as consumer, pytest.raises(TypeError, match="is not a list of TopicPartition"):
        ask(consumer, given)


class Listening(RebalanceListener):
    """A listener that is only passed and never called."""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x", r"listener 'x' has no on_partitions_assigned or on_partitions_revoked: derive a class from Rebal"),
        (print, r"listener <built-in function print> has no on_partitions_assigned"),
        (Listening, r"listener is the class Listening: pass an instance, Listening\(\)"),
    ],
)
def test_a_listener_that_would_never_be_called_is_refused(given, told):
    with pytest.raises(TypeError, match=told):
        Consumer(NOWHERE, topics="t", listener=given)
    with Consumer(NOWHERE, topics="t", listener=Listening()) as consumer, pytest.raises(TypeError, match=told):
        consumer.subscribe("t", listener=given)

    async def check() -> None:
        with pytest.raises(TypeError, match=told):
            aio.Consumer(NOWHERE, topics="t", listener=given)
        async with asyncio.timeout(PATIENCE_S):
            consumer = aio.Consumer(NOWHERE, topics="t", listener=Listening())
            with pytest.raises(TypeError, match=told):
                await consumer.subscribe("t", listener=given)
            await consumer.close()

    asyncio.run(check())


def test_listener_may_be_a_class_whose_methods_need_no_instance():
    class Static:
        @staticmethod
        def on_partitions_assigned(partitions):
            """Would be called by a consumer."""

    Consumer(NOWHERE, topics="t", listener=Static).close()  # type: ignore[arg-type]


def test_an_offset_given_as_text_is_refused():
    with Consumer(NOWHERE) as consumer, pytest.raises(TypeError, match="offset '3' is neither int nor Offset"):
        consumer.seek(TopicPartition("t", 0), "3")  # type: ignore[arg-type]


@pytest.mark.parametrize("offsets", [{"st": 5}, {("t", "0"): 5}, {TopicPartition("t", 0): "5"}, {b"t": 1}])
def test_a_commit_refuses_wrong_types_of_partitions_and_offsets(offsets):
    with Consumer(NOWHERE, group_id="g") as consumer:
        with pytest.raises(TypeError, match=r"TopicPartition|OffsetAndMetadata"):
            consumer.commit(offsets)
        with pytest.raises(TypeError, match=r"TopicPartition|OffsetAndMetadata"):
            consumer.commit_async(offsets)


def test_wrong_topics_and_partitions_of_a_consumer_are_refused():
    with Consumer(NOWHERE, group_id="g") as consumer:
        with pytest.raises(TypeError, match="topic is bytes"):
            consumer.subscribe([b"t"])  # type: ignore[list-item]
        with pytest.raises(InvalidTopicException):
            consumer.subscribe(["a/b"])
        with pytest.raises(TypeError, match="TopicPartition"):
            consumer.assign(["ab"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="TopicPartition"):
            consumer.seek("ab", 0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="TopicPartition"):
            consumer.committed(["ab"])  # type: ignore[list-item]
        assert consumer.subscription() == set()
    with pytest.raises(TypeError, match="topic is bytes"):
        Consumer(NOWHERE, group_id="g", topics=[b"t"])  # type: ignore[list-item]


def test_topics_may_come_from_an_iterator_which_is_read_once(broker, topic, group):
    with Consumer(broker.bootstrap, group_id=group) as consumer:
        consumer.subscribe(name for name in [topic])
        assert consumer.subscription() == {topic}
    with Consumer(broker.bootstrap, group_id=group, topics=iter([topic])) as consumer:
        assert consumer.subscription() == {topic}


@pytest.mark.parametrize("given", [9092, ("localhost", 9092), b"localhost:9092"])
@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_an_address_that_is_not_text_is_refused(make, given):
    with pytest.raises(ConfigError, match=r"bootstrap.servers, as 'localhost:9092': it cannot be "):
        make(given)


@pytest.mark.parametrize("given", ["a:1 b:2", "a:1;b:2"])
def test_addresses_are_separated_by_commas(given):
    with pytest.raises(ConfigError, match="separate addresses by commas"):
        Producer(given)


@pytest.mark.parametrize("values", ["abc", b"abc", None, 3])
def test_send_many_takes_a_list(nowhere, values):
    with pytest.raises(TypeError, match=r"send_many takes a list of values, not .*: send takes one value"):
        nowhere.send_many("t", values)


@pytest.mark.parametrize(
    ("values", "keys", "told"),
    [([b"v"], 3, "keys is int"), ([b"v"], b"k", "keys is bytes"), (iter([b"v"]), [b"k"], "values is ")],
)
def test_send_many_takes_keys_as_a_list_beside_a_list(nowhere, values, keys, told):
    with pytest.raises(TypeError, match=f"send_many takes a list of keys with a list of values: {told}"):
        nowhere.send_many("t", values, keys)


def test_an_error_says_that_the_argument_is_not_a_list():
    with Consumer(NOWHERE) as consumer:
        with pytest.raises(TypeError, match="topics are int, not a list of names"):
            consumer.subscribe(5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="None is not a list of TopicPartition"):
            consumer.assign(None)  # type: ignore[arg-type]


def test_the_error_about_an_unassigned_partition_says_how_to_assign_it():
    with Consumer(NOWHERE) as consumer, pytest.raises(KafkaError, match=r"after subscribe\(\), poll\(\) gets them"):
        consumer.seek(TopicPartition("t", 0), 0)


def test_the_error_about_a_missing_transactional_id_says_how_to_set_it(nowhere):
    with pytest.raises(KafkaError, match="give it one, transactional_id="):
        nowhere.begin_transaction()


def test_configs_of_a_topic_may_be_numbers_and_bools(broker):
    name = unique("configs")
    with Admin(broker.bootstrap) as admin:
        given = {"retention.ms": 60_000, "preallocate": True}
        configs = admin.create_topics(name, configs=given)[name].configs
        assert (configs["retention.ms"], configs["preallocate"]) == ("60000", "true")
        topic = ConfigResource(ResourceType.TOPIC, name)
        admin.incremental_alter_configs({topic: [AlterConfigOp("retention.ms", 70_000)]})
        with pytest.raises(TypeError, match="is not a mapping of keys to values"):
            admin.create_topics("t", configs=["a=b"])
