"""Patterns of topics: translated for the broker, and matched by it (KIP-848)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pyclient import Admin, Consumer, Producer
from pyclient.consumer.group.topic_pattern import for_broker
from pyclient.protocol.errors import InvalidRegularExpression
from pyclient.tests.brokers import Broker, broker, unique  # noqa: F401
from pyclient.tests.support import take, until

GROUP = {"group_protocol": "consumer", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (re.compile("flights-.*"), "flights-.*"),
        (re.compile("a|b", re.IGNORECASE), "(?i)a|b"),
        (re.compile("^a$", re.MULTILINE | re.DOTALL | re.ASCII), "(?ms)^a$"),
        (re.compile(r"a\\Z|b\Z"), r"a\\Z|b\z"),
        (re.compile("a b", re.VERBOSE), None),
        (re.compile(""), None),
        (re.compile(".*"), None),
    ],
)
def test_a_pattern_is_sent_only_if_the_broker_reads_it_alike(pattern: re.Pattern[str], expected: str | None) -> None:
    assert for_broker(pattern, hides_internal=True) == expected


def test_a_pattern_matches_internal_topics_unless_they_are_hidden() -> None:
    assert for_broker(re.compile(".*"), hides_internal=False) == ".*"


@pytest.fixture
def stem(broker: Broker) -> Iterator[str]:  # noqa: F811
    """Creates the topics stem-a, stem-b and stem-other with one record each, and yields the stem."""
    made = unique("pattern")
    names = [f"{made}-{end}" for end in ("a", "b", "other")]
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        for name in names:
            admin.create_topics(name, num_partitions=1, replication_factor=1)
            producer.send(name, value=name.encode()).result(60)
        yield made
        admin.delete_topics(names)


def test_the_coordinator_matches_the_pattern(broker: Broker, stem: str) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, group_id=unique("g"), **GROUP) as consumer:
        consumer.subscribe(re.compile(f"{stem}-[A-B]", re.IGNORECASE))
        assert {record.topic for record in take(consumer, 2)} == {f"{stem}-a", f"{stem}-b"}
        assert consumer.subscription() == {f"{stem}-a", f"{stem}-b"}
        known = consumer._core.client.cluster
        assert known.partitions(f"{stem}-other") is None, "the client has not asked for topics that it does not read"


def test_the_client_matches_a_pattern_that_the_broker_cannot(broker: Broker, stem: str) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, group_id=unique("g"), **GROUP) as consumer:
        consumer.subscribe(re.compile(f"{stem} -a", re.VERBOSE))
        assert [record.topic for record in take(consumer, 1)] == [f"{stem}-a"]


def test_a_pattern_can_be_replaced_by_another(broker: Broker, stem: str) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, group_id=unique("g"), **GROUP) as consumer:
        for pattern, name in ((f"{stem}-a", "a"), (f"{stem}-b", "b")):
            consumer.subscribe(re.compile(pattern))
            assert [record.topic for record in take(consumer, 1)] == [f"{stem}-{name}"]
        consumer.subscribe(re.compile(f"{stem} -other", re.VERBOSE))
        assert [record.topic for record in take(consumer, 1)] == [f"{stem}-other"]


def test_a_pattern_that_the_broker_cannot_parse_raises_an_error(broker: Broker, stem: str) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, group_id=unique("g"), **GROUP) as consumer:
        consumer.subscribe(re.compile(f"(?!x){stem}-a"))
        with pytest.raises(InvalidRegularExpression, match=rf"\(\?!x\){stem}.*RE2/J.*group\.protocol=classic"):
            until(lambda: consumer.poll(0.2))
        consumer.unsubscribe()
        consumer.subscribe(re.compile(f"{stem}-a"))
        assert [record.topic for record in take(consumer, 1)] == [f"{stem}-a"]
