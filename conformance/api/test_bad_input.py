"""Bytes that no client should send: cases 45–51, 57 and 58. The broker closes or refuses, stays small, and serves the
others.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from conformance.conftest import NewBroker
from conformance.data import batches, bombs
from harness.processes import cpu_ns, open_files, peak_rss_kib, reset_peak, rss_kib
from harness.protocol.wire_client import ConnectionClosed, Wire, encode_request, framed, request_header
from harness.servers.brokers import Broker
from harness.waiting import until

METADATA, FETCH, LIST_GROUPS = 3, 1, 16


@pytest.fixture(autouse=True)
def serves_afterwards(broker: Broker) -> Iterator[None]:
    """Checks after each test that the broker serves the next client."""
    yield
    with Wire(broker.address) as wire:
        assert wire.versions()


def closes(broker: Broker, data: bytes) -> bool:
    with Wire(broker.address) as wire:
        wire.send(data)
        return wire.closed_by_peer()


LENGTHS = (-1, -(2**31), 100 * (1 << 20) + 1, 2**31 - 1)


@pytest.mark.parametrize("length", LENGTHS)
def test_case_45_a_frame_length_below_0_or_above_the_limit_closes(broker: Broker, length: int) -> None:
    assert closes(broker, struct.pack(">i", length))


def test_case_45_the_limit_of_a_frame_is_configured(new_broker: NewBroker) -> None:
    broker = new_broker(socket_request_max_bytes=100_000)
    assert closes(broker, struct.pack(">i", 100_001))
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        assert wire.produce("t", batches.batch([b"x" * 90_000])).error_code == 0


@pytest.mark.nightly
@pytest.mark.ours
def test_case_46_memory_grows_with_received_bytes_not_with_declared_sizes(broker: Broker) -> None:
    """Sixty clients that declare 90 MB and send two bytes end a Kafka with a heap of 1 GiB."""
    before = rss_kib(broker.pid)
    liars = [Wire(broker.address) for _ in range(60)]
    for wire in liars:
        wire.send(struct.pack(">i", 90_000_000) + b"\0\0")
    time.sleep(0.5)
    assert rss_kib(broker.pid) - before < 8 << 10
    for wire in liars:
        wire.close()


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n" * 4,
    "zeros": bytes(100),
    "ones": b"\xff" * 100,
    "short frame": framed(b"\0\1"),
    "header only half": framed(request_header(METADATA, 9)[:7]),
    "unknown api key": framed(request_header(4242, 0)),
    "negative api key": framed(request_header(-5, 0)),
    "version too new": framed(request_header(METADATA, 999) + bytes(20)),
    "negative version": framed(request_header(METADATA, -1) + bytes(20)),
    "version removed": framed(request_header(FETCH, 0) + bytes(50)),
    "inter-broker api of old": framed(request_header(4, 0) + bytes(50)),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_case_47_garbage_closes_the_connection(broker: Broker, name: str) -> None:
    assert closes(broker, GARBAGE[name])


@pytest.mark.parametrize("seed", range(20))
def test_case_47_random_bytes_close_the_connection(broker: Broker, seed: int) -> None:
    noise = bytes(os.urandom(64))
    assert closes(broker, framed(noise)), noise.hex()


def metadata(body: bytes, version: int = 8) -> bytes:
    return framed(request_header(METADATA, version) + body)


def flexible_metadata(body: bytes) -> bytes:
    return framed(request_header(METADATA, 9) + b"\0" + body)


NAME = struct.pack(">h", 1) + b"t"
FLAGS = b"\0\0\0"
MALFORMED = {
    "truncated": metadata(struct.pack(">i", 1) + NAME + b"\0"),
    "no body": metadata(b""),
    "count above what is left": metadata(struct.pack(">i", 1_000_000) + NAME + FLAGS),
    "count of 2 billion": metadata(struct.pack(">i", 2**31 - 1) + NAME + FLAGS),
    "string beyond the end": metadata(struct.pack(">ih", 1, 30_000) + b"t" + FLAGS),
    "negative string": metadata(struct.pack(">ih", 1, -7) + FLAGS),
    "over-long varint": flexible_metadata(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"),
    "varint without an end": flexible_metadata(b"\xff\xff\xff"),
    "huge tag count": flexible_metadata(b"\1" + FLAGS + b"\xff\xff\xff\xff\7"),
    "tag beyond the end": flexible_metadata(b"\1" + FLAGS + b"\1\5\x7f"),
    "compact count above what is left": flexible_metadata(b"\xff\xff\xff\7" + FLAGS + b"\0"),
}
#: Kafka reads these as something, or answers them with an error; we take them for what they are.
STRICT = {
    "negative array": metadata(struct.pack(">i", -2) + FLAGS),
    "bad utf-8 in the name": flexible_metadata(b"\2\3\xff\xfe\0" + FLAGS + b"\0"),
    "trailing bytes": framed(request_header(LIST_GROUPS, 0) + b"more"),
    "trailing bytes, flexible": framed(request_header(LIST_GROUPS, 3) + b"\0" + b"\0" + b"more"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_case_48_malformed_requests_close_the_connection(broker: Broker, name: str) -> None:
    assert closes(broker, MALFORMED[name])


@pytest.mark.nightly
@pytest.mark.parametrize("data", [*(struct.pack(">i", length) for length in LENGTHS), *MALFORMED.values()])
def test_case_45_and_48_refused_requests_take_no_memory(broker: Broker, data: bytes) -> None:
    before = rss_kib(broker.pid)
    assert closes(broker, data)
    assert rss_kib(broker.pid) - before < 16 << 10


@pytest.mark.ours
@pytest.mark.parametrize("name", STRICT)
def test_case_48_bytes_that_no_encoder_writes_close_the_connection(broker: Broker, name: str) -> None:
    assert closes(broker, STRICT[name])


def test_case_48_a_request_cut_at_any_byte_closes_and_never_hangs(broker: Broker, topic: str) -> None:
    data = {"name": topic, "partition_data": [{"index": 0, "records": batches.batch([b"x"])}]}
    fields = {"transactional_id": None, "acks": 1, "timeout_ms": 1_000, "topic_data": [data]}
    whole = encode_request("Produce", 9, fields)[4:]
    for end in range(10, len(whole) - 1, 3):
        assert closes(broker, framed(whole[:end])), end


def test_case_49_a_silent_connection_is_closed_after_its_idle_time(new_broker: NewBroker) -> None:
    broker = new_broker(connections_max_idle_ms=1_000)
    with Wire(broker.address) as silent, Wire(broker.address) as busy:
        assert silent.versions()
        start = time.monotonic()
        while time.monotonic() - start < 2.5:
            assert busy.versions()
            time.sleep(0.2)
        assert silent.closed_by_peer(5)
        assert busy.versions()


@pytest.mark.ours
@pytest.mark.campaign
def test_case_49_a_connection_whose_frame_arrives_too_slowly_is_closed(broker: Broker) -> None:
    """One byte now and then does not keep a connection alive: a frame has a deadline of its own, half a minute."""
    with Wire(broker.address) as slow:
        slow.send(struct.pack(">i", 10_000))
        start = time.monotonic()
        closed = False
        while not closed:
            assert time.monotonic() - start < 60, "it drips on"
            with contextlib.suppress(ConnectionClosed):
                slow.send(b"\0")
            closed = slow.closed_by_peer(0.5)


def test_case_50_connections_of_one_address_are_limited(new_broker: NewBroker) -> None:
    broker = new_broker(max_connections_per_ip=5)
    kept = [Wire(broker.address) for _ in range(5)]
    assert all(wire.versions() for wire in kept)
    refused = Wire(broker.address)
    assert refused.closed_by_peer()
    kept.pop().close()

    def served() -> bool:
        with Wire(broker.address) as wire:
            try:
                return bool(wire.versions())
            except (ConnectionClosed, OSError):
                return False

    until(served, "a place to become free")
    for wire in kept:
        assert wire.versions()
        wire.close()


@pytest.mark.nightly
def test_case_50_a_flood_of_connections_leaks_no_file_or_memory(broker: Broker) -> None:
    before, memory = open_files(broker.pid), rss_kib(broker.pid)
    for _ in range(20):
        flood = [socket.create_connection(broker.address) for _ in range(100)]
        for connection in flood:
            connection.close()
    until(lambda: open_files(broker.pid) <= before + 5, "the connections to be forgotten")
    assert rss_kib(broker.pid) - memory < 32 << 10


@pytest.mark.nightly
def test_case_51_a_client_that_never_reads_uses_bounded_memory_and_does_not_block_others(
    broker: Broker, topic: str
) -> None:
    with Wire(broker.address) as wire:
        for _ in range(20):
            wire.produce(topic, batches.batch([os.urandom(900_000)]))
    before = rss_kib(broker.pid)
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20, "current_leader_epoch": -1}
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 50 << 20}
    fields = {"topics": [{"topic": topic, "partitions": [row]}], **limits}
    deaf = Wire(broker.address)
    deaf.socket.settimeout(1)
    sent = 0
    try:
        while sent < 5_000:
            deaf.send(encode_request("Fetch", 11, fields, sent))
            sent += 1
    except (TimeoutError, ConnectionClosed, OSError):
        pass
    with Wire(broker.address) as other:
        start = time.monotonic()
        assert other.fetch(topic, 19).records
        assert time.monotonic() - start < 20
    assert rss_kib(broker.pid) - before < 64 << 10
    deaf.close()


def refused_small(broker: Broker, topic: str, data: bytes, attempts: int = 3) -> tuple[float, int]:
    """Sends a bomb several times. Every answer must be an error.

    Returns the broker's least CPU time in seconds, because other processes can only lengthen it, and its most memory in
    KiB.
    """
    times, memory = [], []
    with Wire(broker.address) as wire:
        for _ in range(attempts):
            before = rss_kib(broker.pid)
            reset_peak(broker.pid)
            start = cpu_ns(broker.pid)
            row = wire.produce(topic, data)
            times.append((cpu_ns(broker.pid) - start) / 1e9)
            memory.append(peak_rss_kib(broker.pid) - before)
            assert row.error_code != 0
        assert wire.end_offset(topic) == 0
    return min(times), max(memory)


@pytest.mark.nightly
@pytest.mark.ours
@pytest.mark.parametrize("codec", bombs.BOMBS, ids=lambda codec: batches.CODEC_NAMES[codec])
def test_case_57_a_zip_bomb_is_refused_quickly_and_stays_small(
    broker: Broker, topic: str, codec: int
) -> None:
    seconds, kib = refused_small(broker, topic, bombs.bomb(codec))
    assert seconds < 0.1
    assert kib < 16 << 10


@pytest.mark.nightly
@pytest.mark.ours
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(bombs.snappy_liar(), id="raw"),
        pytest.param(
            b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 7) + bombs.snappy_liar(), id="java's framing"
        ),
    ],
)
def test_case_57_a_declared_size_is_not_trusted(broker: Broker, topic: str, payload: bytes) -> None:
    data = batches.batch([b"x"], codec=batches.SNAPPY, payload=payload)
    seconds, kib = refused_small(broker, topic, data)
    assert seconds < 0.1
    assert kib < 16 << 10


@pytest.mark.nightly
@pytest.mark.ours
@pytest.mark.parametrize("codec", bombs.BOMBS, ids=lambda codec: batches.CODEC_NAMES[codec])
def test_case_57_a_declared_count_of_two_billion_records_is_not_trusted(
    broker: Broker, topic: str, codec: int
) -> None:
    payload = batches.COMPRESS[codec](batches.Record(b"x").encode(0))
    data = batches.batch(codec=codec, payload=payload, count=2**31 - 1, last_offset_delta=2**31 - 2)
    seconds, kib = refused_small(broker, topic, data)
    assert seconds < 0.1
    assert kib < 16 << 10


def test_case_58_a_tls_hello_on_a_plaintext_port_closes_the_connection(broker: Broker) -> None:
    hello = bytes.fromhex("16030100c8010000c40303") + os.urandom(197)
    assert closes(broker, hello)
