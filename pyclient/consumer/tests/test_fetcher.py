"""Fetches from several scripted brokers: a response arrives when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from cy.batch import Builder
from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import CONSUMER, load
from pyclient.consumer.errors import BatchTooLarge, CorruptRecords
from pyclient.consumer.fetching.fetcher import Fetcher
from pyclient.consumer.subscription import Subscription
from pyclient.core.cluster import Cluster
from pyclient.core.reports.rights import CONSUMING, Rights
from pyclient.protocol import ZERO_UUID, Fetch
from pyclient.protocol.errors import CorruptMessage
from pyclient.topic_partition import TopicPartition

PLACE = TopicPartition("t", 0)


class Leaders(Cluster):
    """Metadata in which the test chooses the leader."""

    now = (1, 1)

    def leader(self, tp: TopicPartition) -> tuple[int, int]:
        return self.now

    def topic_id(self, topic: str) -> bytes:
        return ZERO_UUID


class Loop:
    """An event loop that only collects the functions that it should run."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def run(self) -> None:
        self.waiting.pop()()


class Posts:
    """A client whose requests wait for the test's answers, by broker."""

    rights = Rights(None, CONSUMING)

    def __init__(self) -> None:
        self.cluster = Leaders()
        self.loop = Loop()
        self.waiting: dict[int, Callable[[Any, Any], None]] = {}

    def clock(self) -> float:
        return 0.0

    def post(self, node: int, api: Any, request: Any, done: Callable[[Any, Any], None], **options: Any) -> None:
        self.waiting[node] = done

    def answer(
        self,
        node: int,
        first: int,
        count: int,
        *,
        is_damaged: bool = False,
        partitions: Collection[int] = (0,),
        size: int = 0,
    ) -> None:
        """Answers with ``count`` records from ``first`` on in each partition, of ``size`` bytes if given."""
        builder = Builder()
        for number in range(first, first + count):
            builder.append(0, None, bytes(size) or b"%d" % number)
        records = bytearray(builder.build())
        records[:8] = first.to_bytes(8, "big")
        records[-1] ^= is_damaged
        parts = [
            Fetch.Response.PartitionData(
                partition_index=number, high_watermark=first + count, records=bytes(records)
            )
            for number in partitions
        ]
        topic = Fetch.Response.FetchableTopicResponse(topic="t", partitions=parts)
        self.waiting.pop(node)(Fetch.Response(responses=[topic]), None)


def reading() -> tuple[Posts, Subscription, Fetcher]:
    """Returns a fetcher that has sent its first fetch of one partition."""
    posts, subscription = Posts(), Subscription()
    subscription.assign([PLACE])
    subscription.states[PLACE].seek(0)
    fetcher = Fetcher(posts, load(CONSUMER, "localhost:9092"), subscription, SignalSafeLock())  # type: ignore[arg-type]
    fetcher.pump()
    return posts, subscription, fetcher


def test_a_late_answer_of_an_old_leader_duplicates_no_record() -> None:
    posts, _, fetcher = reading()
    posts.cluster.now = (2, 2)
    fetcher.pump()
    assert posts.waiting.keys() == {1, 2}
    posts.answer(2, 0, 5)
    posts.answer(1, 0, 3)
    posts.answer(2, 5, 2)
    assert [chunk.count for chunk in fetcher.take(100)] == [5, 2]


def test_a_damaged_batch_is_fetched_again_before_it_is_an_error() -> None:
    """A campaign found this: the kernel sent pages of a file that was truncated meanwhile, while the log itself was
    whole.
    """
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


def test_an_error_of_a_partition_names_it_and_says_what_to_do() -> None:
    posts, _, fetcher = reading()
    posts.answer(1, 0, 5)
    fetcher.take(100)
    fetcher.pump()
    rows = [Fetch.Response.PartitionData(error_code=CorruptMessage.code)]
    topic = Fetch.Response.FetchableTopicResponse(topic="t", partitions=rows)
    posts.waiting.pop(1)(Fetch.Response(responses=[topic]), None)
    with pytest.raises(CorruptMessage, match=r"^t-0, offset 5: .*; on the broker `pybroker log verify` shows the"):
        fetcher.take(100)


def test_nothing_beyond_the_end_of_a_range_is_returned_or_fetched() -> None:
    posts, subscription = Posts(), Subscription()
    subscription.assign_range(PLACE, 2, 7)
    fetcher = Fetcher(posts, load(CONSUMER, "localhost:9092"), subscription, SignalSafeLock())  # type: ignore[arg-type]
    fetcher.pump()
    posts.answer(1, 2, 3)
    assert [chunk.count for chunk in fetcher.take(100)] == [3]
    assert not subscription.is_at_end()
    posts.answer(1, 5, 20)
    assert [chunk.count for chunk in fetcher.take(100)] == [2]
    assert subscription.is_at_end()
    assert subscription.states[PLACE].position == 7
    assert not posts.waiting


def test_a_range_is_at_its_end_when_the_next_record_lies_beyond_it() -> None:
    posts, subscription = Posts(), Subscription()
    subscription.assign_range(PLACE, 2, 7)
    fetcher = Fetcher(posts, load(CONSUMER, "localhost:9092"), subscription, SignalSafeLock())  # type: ignore[arg-type]
    fetcher.pump()
    posts.answer(1, 2, 1)
    posts.answer(1, 90, 1)
    assert [chunk.count for chunk in fetcher.take(100)] == [1]
    assert subscription.is_at_end()
    assert subscription.states[PLACE].position == 7


def waiting(count: int, size: int) -> tuple[Posts, Subscription, Fetcher]:
    """Returns a fetcher with paused partitions, each with ``size`` bytes in the buffer, and one more partition."""
    posts, subscription = Posts(), Subscription()
    places = [TopicPartition("t", number) for number in range(count)]
    subscription.assign(places)
    settings = load(CONSUMER, "localhost:9092", {"queued.max.bytes": 10 * size})
    fetcher = Fetcher(posts, settings, subscription, SignalSafeLock())  # type: ignore[arg-type]
    for place in places[:-1]:
        subscription.states[place].seek(0)
    fetcher.pump()
    for place in places[:-1]:
        subscription.states[place].paused = True
    posts.answer(1, 0, 1, partitions=range(count - 1), size=size)
    return posts, subscription, fetcher


@pytest.mark.parametrize("count", [4, 9, 14])
def test_paused_partitions_never_block_the_fetch_of_another(count: int) -> None:
    posts, subscription, fetcher = waiting(count, 10_000)
    last = TopicPartition("t", count - 1)
    subscription.states[last].seek(0)
    fetcher.pump()
    posts.answer(1, 0, 1, partitions=[count - 1])
    assert [(chunk.partition, chunk.count) for chunk in fetcher.take(100)] == [(count - 1, 1)]


def test_records_dropped_for_paused_partitions_are_fetched_again() -> None:
    posts, subscription, fetcher = waiting(9, 10_000)
    subscription.states[TopicPartition("t", 8)].seek(0)
    fetcher.pump()
    posts.answer(1, 0, 1, partitions=[8])
    found = {chunk.partition for chunk in fetcher.take(100)}
    for state in subscription.states.values():
        state.paused = False
    fetcher.pump()
    kept = {chunk.partition for chunk in fetcher.take(100)}
    found |= kept
    assert len(kept) == 4  # half of the buffer, less one batch's overhead
    posts.answer(1, 1, 1, partitions=[8])  # asked for meanwhile
    posts.answer(1, 0, 1, partitions=sorted(set(range(9)) - found))
    found |= {chunk.partition for chunk in fetcher.take(100)}
    assert found == set(range(9))


def test_records_of_a_paused_partition_stay_buffered_unless_room_is_needed() -> None:
    posts, subscription, fetcher = waiting(9, 10_000)
    last = subscription.states[TopicPartition("t", 8)]
    last.seek(0)
    last.paused = True
    fetcher.pump()
    assert not posts.waiting
    for state in subscription.states.values():
        state.paused = False
    assert len(fetcher.take(100)) == 8


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_unpacks_too_large_is_not_called_damaged(codec: int) -> None:
    size = 33 << 20
    builder = Builder(codec=codec)
    builder.append(0, None, bytes(size))
    records = bytes(builder.build())
    for limit, fits in ((size + 100, True), (size - 100, False)):
        posts, subscription = Posts(), Subscription()
        subscription.assign([PLACE])
        subscription.states[PLACE].seek(0)
        settings = load(CONSUMER, "localhost:9092", {"max.decompressed.batch.bytes": limit})
        fetcher = Fetcher(posts, settings, subscription, SignalSafeLock())  # type: ignore[arg-type]
        fetcher.pump()
        part = Fetch.Response.PartitionData(partition_index=0, high_watermark=1, records=records)
        topic = Fetch.Response.FetchableTopicResponse(topic="t", partitions=[part])
        posts.waiting.pop(1)(Fetch.Response(responses=[topic]), None)
        if fits or 64 * len(records) > size:
            assert [chunk.count for chunk in fetcher.take(100)] == [1]
        else:
            with pytest.raises(BatchTooLarge, match="offset 0"):
                fetcher.take(100)
            assert subscription.states[PLACE].position == 0
