"""Fetches of several brokers, without any: answers come when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from cy.batch import Builder
from pyclient.config import CONSUMER, load
from pyclient.consumer.errors import CorruptRecords
from pyclient.consumer.fetcher import Fetcher
from pyclient.consumer.subscription import Subscription
from pyclient.core.cluster import Cluster
from pyclient.protocol import ZERO_UUID, Fetch
from pyclient.topic_partition import TopicPartition

PLACE = TopicPartition("t", 0)


class Leaders(Cluster):
    """The leader is whom a test names."""

    now = (1, 1)

    def leader(self, tp: TopicPartition) -> tuple[int, int]:
        return self.now

    def topic_id(self, topic: str) -> bytes:
        return ZERO_UUID


class Loop:
    """What it is asked to run waits."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def run(self) -> None:
        self.waiting.pop()()


class Posts:
    """A client whose requests wait for the test's answers, by broker."""

    def __init__(self) -> None:
        self.cluster = Leaders()
        self.loop = Loop()
        self.waiting: dict[int, Callable[[Any, Any], None]] = {}

    def clock(self) -> float:
        return 0.0

    def post(self, node: int, api: Any, request: Any, done: Callable[[Any, Any], None], **options: Any) -> None:
        self.waiting[node] = done

    def answer(self, node: int, first: int, count: int, *, is_damaged: bool = False) -> None:
        """So many records from ``first`` on."""
        builder = Builder()
        for number in range(first, first + count):
            builder.append(0, None, b"%d" % number)
        records = bytearray(builder.build())
        records[:8] = first.to_bytes(8, "big")
        records[-1] ^= is_damaged
        part = Fetch.Response.PartitionData(partition_index=0, high_watermark=first + count, records=bytes(records))
        topic = Fetch.Response.FetchableTopicResponse(topic="t", partitions=[part])
        self.waiting.pop(node)(Fetch.Response(responses=[topic]), None)


def reading() -> tuple[Posts, Subscription, Fetcher]:
    """A partition from its start, asked for once."""
    posts, subscription = Posts(), Subscription()
    subscription.assign([PLACE])
    subscription.states[PLACE].seek(0)
    fetcher = Fetcher(posts, load(CONSUMER, "localhost:9092"), subscription, threading.RLock())  # type: ignore[arg-type]
    fetcher.pump()
    return posts, subscription, fetcher


def test_a_leader_that_slept_answers_too_late_and_nothing_is_given_twice() -> None:
    posts, _, fetcher = reading()
    posts.cluster.now = (2, 2)
    fetcher.pump()
    assert posts.waiting.keys() == {1, 2}
    posts.answer(2, 0, 5)
    posts.answer(1, 0, 3)
    posts.answer(2, 5, 2)
    assert [chunk.count for chunk in fetcher.take(100)] == [5, 2]


def test_what_came_damaged_is_fetched_once_more_before_it_is_told() -> None:
    """Found by a campaign: pages that the kernel sent from a file which was cut meanwhile; the log itself was whole."""
    posts, subscription, fetcher = reading()
    posts.answer(1, 0, 5)
    posts.answer(1, 5, 3, is_damaged=True)
    posts.answer(1, 8, 2)
    assert [chunk.count for chunk in fetcher.take(100)] == [5]
    assert fetcher.take(100) == []
    posts.loop.run()
    posts.answer(1, 10, 1)  # it was on its way
    posts.answer(1, 5, 3, is_damaged=True)
    with pytest.raises(CorruptRecords, match="offset 5 is damaged"):
        fetcher.take(100)
    posts.loop.run()
    posts.answer(1, 8, 1)
    posts.answer(1, 5, 3)
    assert [chunk.count for chunk in fetcher.take(100)] == [3]
    assert subscription.states[PLACE].position == 8


def test_nothing_behind_the_end_of_a_range_is_given_or_asked_for() -> None:
    posts, subscription = Posts(), Subscription()
    subscription.assign_range(PLACE, 2, 7)
    fetcher = Fetcher(posts, load(CONSUMER, "localhost:9092"), subscription, threading.RLock())  # type: ignore[arg-type]
    fetcher.pump()
    posts.answer(1, 2, 3)
    assert [chunk.count for chunk in fetcher.take(100)] == [3]
    assert not subscription.is_at_end()
    posts.answer(1, 5, 20)
    assert [chunk.count for chunk in fetcher.take(100)] == [2]
    assert subscription.is_at_end()
    assert subscription.states[PLACE].position == 7
    assert not posts.waiting


def test_a_range_ends_where_the_next_record_lies_behind_it() -> None:
    posts, subscription = Posts(), Subscription()
    subscription.assign_range(PLACE, 2, 7)
    fetcher = Fetcher(posts, load(CONSUMER, "localhost:9092"), subscription, threading.RLock())  # type: ignore[arg-type]
    fetcher.pump()
    posts.answer(1, 2, 1)
    posts.answer(1, 90, 1)
    assert [chunk.count for chunk in fetcher.take(100)] == [1]
    assert subscription.is_at_end()
    assert subscription.states[PLACE].position == 7
