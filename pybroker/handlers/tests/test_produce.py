"""Produce: the answer for each partition, in the form of every version."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
from typing import Any

import pytest

from cy.batch import Builder
from cy.batch.compression import Codec
from proofs.garbage import leaves_nothing
from pybroker.handlers import produce
from pybroker.handlers.common.turns import Turns
from pybroker.handlers.tests.harness import Node
from pybroker.log.tests.helpers import contents
from pybroker.log.validation import Rules
from pybroker.replication.tests.harness import NOW, batch, idempotent, topic_id
from pyclient.protocol import Produce, errors

Request = Produce.Request
Partition = Produce.Response.PartitionProduceResponse


def request(records: Any, *, topic: str = "t", acks: int = 1, **fields: Any) -> Produce.Request:
    """Returns a request for partition 0, with name and id of the topic."""
    data = Request.PartitionProduceData(index=0, records=records)
    named = Request.TopicProduceData(name=topic, topic_id=topic_id(topic), partition_data=[data])
    return Request(acks=acks, timeout_ms=1000, topic_data=[named], **fields)


def send(node: Node, records: Any, version: int = 11, client_id: str = "c", **options: Any) -> Any:
    """Sends records; returns the answer for partition 0."""
    response = node.ask(produce, request(records, **options), version, client_id)
    return response.responses[0].partition_responses[0]


def code(node: Node, records: Any, version: int = 11, **options: Any) -> str:
    """Sends records; returns the name of the error, NONE without an error."""
    answer = send(node, records, version, **options)
    error = errors.by_code(answer.error_code)
    if error is None:
        return "NONE"
    assert answer.base_offset == -1
    return error.name


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_appends_the_batch_and_returns_its_offset(node: Node, version: int) -> None:
    node.create()
    assert send(node, batch(b"a", b"b"), version) == Partition(index=0, base_offset=0, log_start_offset=0)
    assert send(node, batch(b"c"), version).base_offset == 2
    assert [value for _, value in contents(node.replicas.find("t", 0).log)] == [b"a", b"b", b"c"]


def test_a_produce_response_names_topics_as_the_request_does(node: Node) -> None:
    node.create()
    response = node.ask(produce, request(batch()), 13)
    assert response.responses[0].topic_id == topic_id("t")
    assert node.ask(produce, request(batch()), 12).responses[0].name == "t"


def test_a_produce_returns_a_result_for_each_partition(node: Node) -> None:
    node.create(partitions=2)
    data = [
        Request.PartitionProduceData(index=index, records=records)
        for index, records in ((0, batch()), (1, b"nonsense"), (7, batch()))
    ]
    topics = [
        Request.TopicProduceData(name="t", partition_data=data),
        Request.TopicProduceData(name="u", partition_data=data[:1]),
    ]
    response = node.ask(produce, Request(acks=-1, timeout_ms=1, topic_data=topics), 9)
    codes = [[p.error_code for p in topic.partition_responses] for topic in response.responses]
    assert codes == [[0, 2, 3], [3]]


def test_a_produce_to_an_unknown_topic_fails_by_name_and_by_id(node: Node) -> None:
    assert code(node, batch(), 12) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert code(node, batch(), 13) == "UNKNOWN_TOPIC_ID"


# acks


@pytest.mark.parametrize("acks", [-2, 2, 1000])
def test_case_53_a_produce_with_invalid_acks_is_refused(node: Node, acks: int) -> None:
    partition = node.create()
    assert code(node, batch(), acks=acks) == "INVALID_REQUIRED_ACKS"
    assert partition.log.log_end_offset == 0


def test_a_produce_with_acks_0_gets_no_response(node: Node) -> None:
    partition = node.create()
    assert node.ask(produce, request(batch(), acks=0), 9) is None
    assert partition.log.log_end_offset == 1


@pytest.mark.parametrize("records", [None, b"", b"garbage", batch()[:-1] + b"!"])
def test_case_53_an_invalid_produce_with_acks_0_closes_the_connection(node: Node, records: Any) -> None:
    node.create()
    with pytest.raises(errors.KafkaError):
        node.ask(produce, request(records, acks=0), 9)


def test_a_produce_with_acks_0_appends_the_valid_batches_beside_an_invalid_one(node: Node) -> None:
    node.create(partitions=2)
    data = [Request.PartitionProduceData(index=index, records=records) for index, records in ((0, b"x"), (1, batch()))]
    topics = [Request.TopicProduceData(name="t", partition_data=data)]
    with pytest.raises(errors.KafkaError):
        node.ask(produce, Request(acks=0, timeout_ms=1, topic_data=topics), 9)
    assert node.replicas.find("t", 1).log.log_end_offset == 1


def test_case_16_a_produce_with_acks_all_needs_min_insync_replicas(node: Node) -> None:
    node.create(replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    assert code(node, batch(), acks=-1) == "NOT_ENOUGH_REPLICAS"
    assert code(node, batch(), acks=1) == "NONE"


def test_a_produce_with_acks_all_is_answered_when_the_followers_have_the_batch(node: Node) -> None:
    partition = node.create(replicas=(1, 2))

    async def follow() -> Any:
        waiting = asyncio.ensure_future(node_ask())
        await asyncio.sleep(0)
        assert not waiting.done()
        partition.on_follower_fetch(2, 1, 0, 0)
        node.replicas.purgatory.wake(partition)
        return await waiting

    async def node_ask() -> Any:
        call = node.call(9)
        return await produce.handle(request(batch(), acks=-1), call)  # type: ignore[misc]

    answer = node.run(follow()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_a_produce_with_acks_all_that_times_out_keeps_its_records(node: Node) -> None:
    partition = node.create(replicas=(1, 2))
    answer = send(node, batch(), acks=-1)
    assert answer.error_code == errors.RequestTimedOut.code
    assert partition.log.log_end_offset == 1
    assert len(node.replicas.purgatory) == 0


def test_a_cancelled_produce_leaves_nothing_in_the_purgatory(node: Node) -> None:
    node.create(partitions=1, replicas=(1, 2))

    async def go() -> None:
        call = node.call(9)
        waiting = asyncio.ensure_future(produce.handle(request(batch(), acks=-1), call))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert len(node.replicas.purgatory) == 1
        waiting.cancel()
        await asyncio.sleep(0)

    node.run(go())
    assert len(node.replicas.purgatory) == 0


# Batches


@pytest.mark.parametrize("records", [None, b""])
def test_a_produce_without_a_batch_is_refused(node: Node, records: bytes | None) -> None:
    node.create()
    assert code(node, records) == "INVALID_RECORD"


def test_a_produce_needs_exactly_one_batch_of_magic_2_per_partition(node: Node) -> None:
    node.create()
    assert code(node, batch() + batch()) == "INVALID_RECORD"
    old = bytearray(batch())
    old[16] = 1
    assert code(node, old) == "INVALID_RECORD"


def test_case_54_a_damaged_batch_is_refused_as_corrupt(node: Node) -> None:
    node.create()
    good = batch(b"abc")
    assert code(node, good[:-1] + b"!") == "CORRUPT_MESSAGE"
    assert code(node, good[:-1]) == "CORRUPT_MESSAGE"
    assert code(node, good[:8] + b"\x7f" + good[9:]) == "CORRUPT_MESSAGE"


def test_case_54_a_control_batch_from_a_client_is_refused(node: Node) -> None:
    node.create()
    assert code(node, batch(control=True)) == "INVALID_RECORD"


def test_case_55_a_compacted_topic_refuses_a_batch_and_names_its_records_without_keys(node: Node) -> None:
    node.create(cleanup_policy="compact")
    builder = Builder()
    for key in (b"k", None, b"k", None):
        builder.append(NOW, key, b"v")
    answer = send(node, builder.build(), 8)
    assert answer.error_code == errors.InvalidRecord.code
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert answer.error_message
    assert all(each.batch_index_error_message for each in answer.record_errors)


def test_case_55_a_produce_with_a_timestamp_out_of_range_is_refused(node: Node) -> None:
    node.create(message_timestamp_before_max_ms="1000")
    assert code(node, batch(timestamp=NOW - 2000)) == "INVALID_TIMESTAMP"


def test_case_56_a_batch_that_is_too_large_is_refused(node: Node) -> None:
    node.create(max_message_bytes="1000")
    assert code(node, batch(bytes(1000))) == "MESSAGE_TOO_LARGE"
    node.create("u", segment_bytes="1024")
    assert code(node, batch(bytes(2000)), topic="u") == "RECORD_LIST_TOO_LARGE"


def test_case_57_an_unknown_compression_codec_is_refused(node: Node) -> None:
    node.create()
    unknown = bytearray(batch())
    unknown[22] |= 5
    assert code(node, unknown) in ("UNSUPPORTED_COMPRESSION_TYPE", "CORRUPT_MESSAGE")


def test_a_zstd_batch_needs_version_7_of_produce(node: Node) -> None:
    node.create()
    records = batch(b"a" * 100, codec=4)
    assert code(node, records, 6) == "UNSUPPORTED_COMPRESSION_TYPE"
    assert code(node, records, 7) == "NONE"


def test_a_produce_returns_the_log_append_time(node: Node) -> None:
    node.create(message_timestamp_type="LogAppendTime")
    assert send(node, batch(timestamp=1)).log_append_time_ms == NOW
    node.create("u")
    assert send(node, batch(timestamp=1), topic="u").log_append_time_ms == -1


@pytest.mark.parametrize("client_id", ["c", "__admin_client", None])
def test_a_client_cannot_produce_to_an_internal_topic_whatever_its_client_id(node: Node, client_id: str | None) -> None:
    node.create("__consumer_offsets")
    answer = send(node, batch(), client_id=client_id, topic="__consumer_offsets")
    assert answer.error_code == errors.InvalidTopicException.code


# Idempotence and transactions


def test_case_31_a_resent_batch_gets_its_first_offset_and_is_not_appended_again(node: Node) -> None:
    partition = node.create()
    assert send(node, idempotent(0, b"a", b"b")).base_offset == 0
    assert send(node, idempotent(2, b"c")).base_offset == 2
    answer = send(node, idempotent(0, b"a", b"b"))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert partition.log.log_end_offset == 3


def test_case_31_a_gap_in_the_sequence_and_an_old_duplicate_are_refused(node: Node) -> None:
    node.create()
    for sequence in range(7):
        send(node, idempotent(sequence))
    assert code(node, idempotent(8)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert code(node, idempotent(0)) == "DUPLICATE_SEQUENCE_NUMBER"


def test_case_33_an_old_producer_epoch_is_refused_and_a_new_one_begins_at_sequence_0(node: Node) -> None:
    node.create()
    assert code(node, idempotent(0, epoch=1)) == "NONE"
    assert code(node, idempotent(0, epoch=0)) == "INVALID_PRODUCER_EPOCH"
    assert code(node, idempotent(5, epoch=2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert code(node, idempotent(0, epoch=2)) == "NONE"


# Where to go instead


def test_a_produce_returns_the_new_leader_from_version_10_on(node: Node) -> None:
    node.create(replicas=(2, 3), leader=2, epoch=7)
    response = node.ask(produce, request(batch()), 10)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == errors.NotLeaderOrFollower.code
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 7)
    assert [(n.node_id, n.host, n.port) for n in response.node_endpoints] == [(2, "broker2", 9093)]

    response = node.ask(produce, request(batch()), 13)
    assert response.node_endpoints[0].node_id == 2
    response = node.ask(produce, request(batch()), 9)
    assert response.node_endpoints == []


# Long requests


def large_batch(size: int = 3 << 20, codec: Codec = Codec.ZSTD) -> bytes:
    """Returns a small batch that unpacks to ``size`` bytes."""
    builder = Builder(codec=codec)
    builder.append(NOW, None, bytes(size))
    return bytes(builder.build())


def of_many(records: list[bytes], acks: int = 1) -> Produce.Request:
    """Returns a request that names the same partition for each batch."""
    data = [Request.PartitionProduceData(index=0, records=memoryview(bytearray(each))) for each in records]
    return Request(acks=acks, timeout_ms=1000, topic_data=[Request.TopicProduceData(name="t", partition_data=data)])


def test_a_batch_that_unpacks_to_many_bytes_is_checked_on_another_thread(node: Node) -> None:
    node.create()
    threads: set[int] = set()
    plain = Rules.checked

    def noted(self: Rules, records: Any, now_ms: int) -> Any:
        threads.add(threading.get_ident())
        return plain(self, records, now_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rules, "checked", noted)
        assert send(node, large_batch()).base_offset == 0
        assert send(node, batch(b"small")).base_offset == 1
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert node.connection.held == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_small_and_large_batches_are_appended_in_the_order_of_the_request(node: Node, codec: Codec) -> None:
    node.create()
    asked = of_many([batch(b"1"), large_batch(codec=codec), batch(b"2"), large_batch(codec=codec), batch(b"3")])
    response = node.ask(produce, asked, 9)
    answers = response.responses[0].partition_responses
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, number) for number in range(5)]
    assert len(response.responses) == 1
    found = [value or b"" for _, value in contents(node.replicas.find("t", 0).log)]
    assert [len(value) for value in found] == [1, 3 << 20, 1, 3 << 20, 1]


def test_a_batch_that_unpacks_to_too_many_bytes_is_refused_alone(node: Node) -> None:
    node.create()
    bad = bytearray(large_batch(40 << 20))
    answers = node.ask(produce, of_many([batch(b"1"), bytes(bad), batch(b"2")]), 9).responses[0].partition_responses
    assert [each.error_code for each in answers] == [0, errors.InvalidRecord.code, 0]


def test_a_large_batch_is_recompressed_on_another_thread(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create(**{"compression.type": "gzip"})
    threads: list[int] = []
    plain = Rules.recompressed

    def noted(self: Rules, records: Any, header: Any) -> Any:
        threads.append(threading.get_ident())
        return plain(self, records, header)

    monkeypatch.setattr(Rules, "recompressed", noted)
    value = bytes(range(256)) * 200
    assert send(node, batch(value)).base_offset == 0
    assert contents(node.replicas.find("t", 0).log)[0][1] == value
    assert threads
    assert threads[0] != threading.get_ident()


def test_a_produce_of_many_batches_is_served_in_several_turns(node: Node) -> None:
    node.create()
    asked = of_many([batch(b"%d" % number) for number in range(50)])
    node.turns = Turns(itertools.count(0, 0.002).__next__)  # each look at this clock is later
    result = produce.handle(asked, node.call(9))
    assert inspect.iscoroutine(result)
    response = node.run(result)
    offsets = [each.base_offset for each in response.responses[0].partition_responses]
    assert offsets == list(range(50))


def test_a_produce_cancelled_between_two_turns_leaves_nothing_in_the_purgatory(node: Node) -> None:
    node.create(replicas=(1, 2))

    async def go() -> None:
        asked = of_many([batch(b"1"), large_batch()], acks=-1)
        work = asyncio.ensure_future(produce.handle(asked, node.call(9)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert len(node.replicas.purgatory) == 1
        work.cancel()
        await asyncio.wait([work])

    node.run(go())
    assert len(node.replicas.purgatory) == node.connection.held == 0


def test_a_large_produce_with_acks_0_fails_only_after_its_valid_batches_are_appended(node: Node) -> None:
    node.create()
    with pytest.raises(errors.CorruptMessage):
        node.ask(produce, of_many([b"nonsense" * 20, large_batch(), batch(b"1")], acks=0), 9)
    assert node.replicas.find("t", 0).log.log_end_offset == 2


def test_a_produce_whose_batches_are_refused_leaves_nothing_to_the_garbage_collector(node: Node) -> None:
    """The collector seldom looks at all objects, and the request's bytes would stay until then."""
    node.create("t")
    with leaves_nothing(Request):
        node.ask(produce, of_many([large_batch()[:-1] + b"!"] * 3), 9)


def test_a_batch_that_a_thread_refuses_leaves_nothing_to_the_garbage_collector(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(self: Rules, records: Any, now_ms: int) -> Any:
        raise errors.InvalidRecord("a zip bomb")

    monkeypatch.setattr(Rules, "checked", checked)
    node.create("t")
    with leaves_nothing(Request):
        node.ask(produce, of_many([large_batch()] * 2), 9)
