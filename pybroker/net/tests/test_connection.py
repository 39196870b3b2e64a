"""Order of replies, back-pressure, and what ends a connection."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct

import pytest

from pybroker.net.limits import Limits
from pybroker.net.tests.harness import (
    BULK,
    ECHO,
    FAIL,
    SILENT,
    STUBBORN,
    UNSUPPORTED,
    WAIT,
    WORK,
    Answer,
    Harness,
    frame,
    scenario,
    turns,
)

IDLE_S = Limits().idle_ms / 1000
GRACE_S = Limits().frame_grace_s


@scenario()
async def test_pipelined_requests_are_answered_in_order(harness: Harness) -> None:
    client = await harness.connect()
    for number in range(500):
        client.send(ECHO, number, b"%d" % number)
    assert [await client.receive() for _ in range(500)] == [(n, b"%d" % n) for n in range(500)]


@scenario()
async def test_a_request_that_arrives_byte_by_byte_is_answered(harness: Harness) -> None:
    client = await harness.connect()
    for byte in frame(ECHO, 7, b"hello"):
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert await client.receive() == (7, b"hello")


@scenario()
async def test_replies_keep_the_order_of_their_requests_if_a_later_one_is_ready_first(
    harness: Harness,
) -> None:
    client = await harness.connect()
    client.send(WAIT, 1)
    client.send(ECHO, 2, b"sync")
    client.send(WAIT, 3)
    client.send(WORK, 4, b"task ")
    client.send(WORK, 5, b"at once")
    client.send(SILENT, 6)
    client.send(18, 7, version=99)
    await harness.until(lambda: len(harness.waiting) == 3 and b"at once" in harness.seen)
    harness.waiting[2].set_result(b"done")
    harness.waiting[1].set_result(Answer(b"third"))
    await turns()
    harness.waiting[0].set_result(Answer(b"first"))
    assert [await client.receive() for _ in range(6)] == [
        (1, b"first"),
        (2, b"sync"),
        (3, b"third"),
        (4, b"task done"),
        (5, b"at once"),
        (7, UNSUPPORTED),
    ]


@scenario()
async def test_a_request_is_processed_while_an_earlier_one_waits(harness: Harness) -> None:
    client = await harness.connect()
    client.send(WAIT, 1)
    client.send(ECHO, 2, b"served meanwhile")
    await harness.until(lambda: harness.seen == [b"served meanwhile"])
    harness.waiting[0].set_result(None)
    assert await client.receive() == (2, b"served meanwhile")


@scenario()
async def test_a_request_without_a_reply_does_not_hold_back_the_next_reply(harness: Harness) -> None:
    client = await harness.connect()
    client.send(SILENT, 1, b"acks=0")
    assert await client.ask(ECHO, 2, b"next") == (2, b"next")
    assert harness.seen == [b"acks=0", b"next"]


@scenario()
async def test_requests_of_one_api_and_version_share_one_call_object(harness: Harness) -> None:
    client = await harness.connect()
    for number in range(3):
        await client.ask(ECHO, number)
    assert len(harness.calls) == 1
    call = harness.calls[0]
    assert (call.version, call.client_id) == (1, "test")
    assert call.connection.local_address == ("127.0.0.1", harness.port)
    assert call.connection.peer_address == client.writer.get_extra_info("sockname")
    assert call.connection.listener_name == "PLAINTEXT"
    client.send(ECHO, 9, version=0)
    await client.receive()
    assert harness.calls[1].version == 0
    client.send(BULK, 10, b"1")
    await client.receive()
    assert harness.calls[1].api != harness.calls[2].api


@scenario()
async def test_waiting_requests_of_a_closed_connection_are_cancelled(harness: Harness) -> None:
    client = await harness.connect()
    client.send(WAIT, 1)
    client.send(WORK, 2)
    await harness.until(lambda: len(harness.waiting) == 2)
    client.reset()
    await harness.until(lambda: all(future.cancelled() for future in harness.waiting))
    assert not harness.server.connections


def test_a_future_that_fails_after_its_connection_closed_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    @scenario()
    async def fail(harness: Harness) -> None:
        client = await harness.connect()
        client.send(WORK, 1, STUBBORN)
        await harness.until(lambda: bool(harness.waiting))
        client.reset()
        await harness.until(lambda: harness.waiting[0].cancelled() and not harness.server.connections)
        await asyncio.sleep(0)
        gc.collect()

    with caplog.at_level(logging.DEBUG):
        fail()
    assert "late" not in caplog.text
    assert "never retrieved" not in caplog.text


@scenario()
async def test_case_47_an_unknown_api_or_unsupported_version_closes_the_connection(harness: Harness) -> None:
    for key, version in ((99, 0), (ECHO, 2), (ECHO, -1), (-1, 0)):
        client = await harness.connect()
        client.send(key, 1, version=version)
        assert await client.is_closed()


@scenario()
async def test_case_47_an_api_versions_request_of_an_unsupported_version_is_answered(harness: Harness) -> None:
    client = await harness.connect()
    client.send(18, 5, b"whatever the body is", version=99)
    assert await client.receive() == (5, UNSUPPORTED)
    assert await client.ask(ECHO, 6, b"goes on") == (6, b"goes on")


@scenario()
async def test_case_48_a_request_that_cannot_be_decoded_closes_the_connection_after_earlier_replies(
    harness: Harness,
) -> None:
    client = await harness.connect()
    client.writer.write(frame(ECHO, 1, b"good") + frame(ECHO, 2, b"bad") + frame(ECHO, 3, b"never"))
    assert await client.receive() == (1, b"good")
    assert await client.is_closed()
    assert harness.seen == [b"good"]


@scenario()
async def test_case_48_a_frame_shorter_than_a_request_header_closes_the_connection(harness: Harness) -> None:
    for body in (b"", b"\0", b"\0\3\0\1\0\0\0", b"\0\3\0\1\0\0\0\1\0\x10abc"):
        client = await harness.connect()
        client.writer.write(struct.pack(">i", len(body)) + body)
        assert await client.is_closed()


@scenario()
async def test_case_45_an_impossible_frame_length_closes_the_connection_without_an_allocation(harness: Harness) -> None:
    for length in (-1, -(2**31), 104_857_601, 2**31 - 1):
        client = await harness.connect()
        client.writer.write(struct.pack(">i", length))
        assert await client.is_closed()
        assert harness.server.memory.taken == 0


@scenario()
async def test_case_46_connections_that_declare_large_frames_and_send_few_bytes_take_little_memory(
    harness: Harness,
) -> None:
    clients = [await harness.connect() for _ in range(60)]
    for client in clients:
        client.writer.write(struct.pack(">i", 90_000_000) + b"xy")
    await harness.until(lambda: sum(bool(each._reader.pending) for each in harness.server.connections) == 60)
    assert 0 < harness.server.memory.taken <= 60 * 1024
    for client in clients:
        client.reset()
    await harness.until(lambda: harness.server.memory.taken == 0)


def test_case_47_a_flood_of_http_requests_is_logged_in_few_lines_with_peer_and_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @scenario()
    async def flood(harness: Harness) -> None:
        for _ in range(50):
            client = await harness.connect()
            client.writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await client.is_closed()

    with caplog.at_level(logging.WARNING):
        flood()
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 3
    assert "127.0.0.1" in lines[0]
    assert "HTTP" in lines[0]


def test_case_58_a_tls_connection_to_a_plaintext_listener_is_closed_and_logged_with_a_hint(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @scenario()
    async def hello(harness: Harness) -> None:
        client = await harness.connect()
        client.writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 500)
        assert await client.is_closed()
        assert harness.server.memory.taken == 0

    with caplog.at_level(logging.WARNING):
        hello()
    assert "security.protocol=PLAINTEXT" in caplog.text


def test_a_handler_that_raises_closes_its_connection_and_is_not_logged_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @scenario()
    async def fail(harness: Harness) -> None:
        for _ in range(20):
            client = await harness.connect()
            client.send(ECHO, 1, b"before")
            client.send(FAIL, 2, b"a bug")
            assert await client.receive() == (1, b"before")
            assert await client.is_closed()

    with caplog.at_level(logging.ERROR):
        fail()
    assert caplog.text.count("Traceback") <= 3
    assert "a bug" in caplog.text


@scenario(Limits(max_unanswered=10))
async def test_a_connection_with_too_many_unanswered_requests_is_not_read_until_a_reply(harness: Harness) -> None:
    client = await harness.connect()
    for number in range(500):
        client.send(WAIT, number)
    await harness.until(lambda: len(harness.waiting) == 10)
    await turns()
    assert len(harness.waiting) == 10
    for number in range(500):
        await harness.until(lambda number=number: len(harness.waiting) > number)  # type: ignore[misc]
        harness.waiting[number].set_result(Answer(b""))
        assert await client.receive() == (number, b"")


@scenario()
async def test_a_connection_that_is_held_serves_no_request_until_every_hold_is_released(
    harness: Harness,
) -> None:
    client = await harness.connect()
    assert await client.ask(ECHO, 1, b"first") == (1, b"first")
    [connection] = harness.server.connections
    connection.hold()
    connection.hold()
    for number in range(2, 5):
        client.send(ECHO, number, b"later")
    other = await harness.connect()
    assert await other.ask(ECHO, 9, b"other") == (9, b"other")
    connection.release()
    assert await other.ask(ECHO, 10, b"other") == (10, b"other")
    assert harness.seen == [b"first", b"other", b"other"]
    connection.release()
    for number in range(2, 5):
        assert await client.receive() == (number, b"later")


@scenario(Limits(max_unsent=100_000))
async def test_case_51_a_client_that_never_reads_is_muted_and_closed_after_the_idle_time(
    harness: Harness,
) -> None:
    client = await harness.connect()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(2_000):
        client.send(BULK, number, b"50000")
    await harness.until(lambda: any(each.unsent for each in harness.server.connections))
    await turns()
    [connection] = harness.server.connections
    assert connection.unsent < 200_000
    assert len(harness.seen) < 1_000
    harness.later(IDLE_S - 60)
    assert not connection.closed
    await harness.until(lambda: harness.later(IDLE_S + 1) or not harness.server.connections)


@scenario(Limits(max_unsent=100_000))
async def test_a_client_that_reads_slowly_gets_every_reply(harness: Harness) -> None:
    client = await harness.connect()
    for number in range(300):
        client.send(BULK, number, b"60000")
    for number in range(300):
        if number % 50 == 0:
            await turns()
        assert await client.receive() == (number, b"z" * 60_000)


@scenario()
async def test_case_49_an_idle_connection_is_closed_unless_a_request_waits(
    harness: Harness,
) -> None:
    idle, waiting = await harness.connect(), await harness.connect()
    waiting.send(WAIT, 1)
    await harness.until(lambda: len(harness.waiting) == 1 and len(harness.server.connections) == 2)
    harness.later(IDLE_S - 60)
    assert len(harness.server.connections) == 2
    harness.later(61)
    assert await idle.is_closed()
    harness.later(IDLE_S + 1)
    harness.waiting[0].set_result(Answer(b"still here"))
    assert await waiting.receive() == (1, b"still here")


@scenario()
async def test_case_49_a_request_that_arrives_too_slowly_closes_only_its_connection(
    harness: Harness,
) -> None:
    slow, lively = await harness.connect(), await harness.connect()
    data = frame(ECHO, 1, b"x" * 1_000)
    for second, byte in enumerate(data):
        slow.writer.write(bytes([byte]))
        assert await lively.ask(ECHO, 2, b"ok") == (2, b"ok")
        harness.later(1)
        if len(harness.server.connections) == 1:
            break
        assert second <= GRACE_S + 10
    assert second >= GRACE_S - 1
    assert await slow.is_closed()
    assert await lively.ask(ECHO, 3, b"ok") == (3, b"ok")


@scenario()
async def test_the_deadline_of_a_frame_counts_from_its_first_byte(harness: Harness) -> None:
    client = await harness.connect()
    assert await client.ask(ECHO, 1, b"x") == (1, b"x")
    [connection] = harness.server.connections
    harness.later(GRACE_S + 10)
    data = frame(ECHO, 2, b"later")
    client.writer.write(data[:9])
    await harness.until(lambda: connection._reader.pending == 9)
    harness.later(1)
    client.writer.write(data[9:])
    assert await client.receive() == (2, b"later")


@scenario(Limits(max_unanswered=1))
async def test_the_deadline_of_a_frame_does_not_run_while_its_connection_is_not_read(harness: Harness) -> None:
    client = await harness.connect()
    data = frame(ECHO, 2, b"later")
    client.writer.write(frame(WAIT, 1, b"") + data[:9])
    await harness.until(lambda: len(harness.waiting) == 1)
    harness.later(GRACE_S + 10)
    harness.waiting[0].set_result(Answer(b""))
    assert await client.receive() == (1, b"")
    harness.later(1)
    client.writer.write(data[9:])
    assert await client.receive() == (2, b"later")


@scenario(Limits(queued_bytes=50_000))
async def test_the_memory_of_incomplete_requests_is_limited_over_all_connections(harness: Harness) -> None:
    greedy = [await harness.connect() for _ in range(20)]
    for client in greedy:
        client.writer.write(struct.pack(">i", 1_000_000) + b"x" * 9_000)
    await harness.until(lambda: harness.server.memory.taken > 50_000)
    await turns()
    for client in greedy:
        client.writer.write(b"x" * 300_000)
    await turns()
    assert harness.server.memory.taken < 50_000 + 20 * 10_000 + 1_000_004, "one may get whole"
    await harness.until(lambda: harness.later(GRACE_S * 2) or harness.server.memory.taken == 0)
    assert await greedy[0].is_closed()
    fresh = await harness.connect()
    assert await fresh.ask(ECHO, 1, b"y" * 20_000) == (1, b"y" * 20_000)


@scenario(Limits(queued_bytes=4 << 20))
async def test_incomplete_requests_that_fill_the_memory_complete_one_by_one(harness: Harness) -> None:
    clients = [await harness.connect() for _ in range(8)]
    body, part, memory = b"x" * (3 << 20), 700_000, harness.server.memory
    data = frame(ECHO, 1, body)
    for client in clients:
        client.writer.write(data[:part])
    await harness.until(lambda: memory.taken > 3 << 20)
    for client in clients:
        client.writer.write(data[part:])
    for client in clients:
        assert await client.receive() == (1, body)
        assert memory.taken < (4 << 20) + len(data)
    assert memory.limit == 4 << 20


@scenario()
async def test_large_requests_and_replies_pass_unchanged(harness: Harness) -> None:
    client = await harness.connect()
    for size in (70_000, 1_000_000, 300_000, 3_000_000, 10):
        body = bytes(range(256)) * (size // 256) + b"tail"
        assert await client.ask(ECHO, size, body) == (size, body)
