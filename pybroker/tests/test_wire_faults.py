"""Hostile bytes against a real broker: it closes that connection, stays small, and serves on."""

from __future__ import annotations

import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.tests.processes import Running, broker
from pyclient.protocol import ApiVersions, CreateTopics, Metadata, Produce, errors
from pyclient.protocol.apis import ALL, Api

pytestmark = pytest.mark.nightly

SETTINGS = (
    "connections.max.idle.ms=1000",
    "max.connections.per.ip.overrides=127.0.0.2:3",
    "auto.create.topics.enable=false",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    arguments = [part for setting in SETTINGS for part in ("--set", setting)]
    with broker(tmp_path_factory.mktemp("data"), "--host", "", *arguments) as started:
        yield started
        assert is_served(started)
        ended = started.stop()
        assert ended.code == 0
        assert "Traceback" not in ended.err, ended.err


def connect(running: Running, source: str = "127.0.0.1") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", running.port), 5, source_address=(source, 0))
    sock.settimeout(5)
    return sock


def read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def ask(sock: socket.socket, api: Api, version: int, request: object) -> object:
    """One request and its response."""
    sock.sendall(api.encode_request(version, 7, "test", request))  # type: ignore[arg-type]
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    body = read_exactly(sock, size)
    assert body[:4] == b"\0\0\0\7"
    tagged = api.response_codec.has_flexible_header(version)  # type: ignore[attr-defined]
    return api.decode_response(version, body, 5 if tagged else 4, size)


def is_closed(sock: socket.socket) -> bool:
    """True when the broker closes without having sent anything."""
    with sock:
        try:
            return sock.recv(1) == b""
        except ConnectionResetError:
            return True


def is_served(running: Running) -> bool:
    with connect(running) as sock:
        response = ask(sock, ApiVersions, 0, ApiVersions.Request())
        return bool(response.error_code == 0 and response.api_keys)  # type: ignore[attr-defined]


def rss_kib(running: Running) -> int:
    lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.parametrize("length", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_case_45_lying_lengths_close(running: Running, length: int) -> None:
    sock = connect(running)
    sock.sendall(struct.pack(">i", length) + b"\0" * 20)
    assert is_closed(sock)


def test_case_46_sixty_declared_frames_of_90_mb_cost_nothing(running: Running) -> None:
    assert is_served(running)
    before = rss_kib(running)
    socks = [connect(running) for _ in range(60)]
    for sock in socks:
        sock.sendall(struct.pack(">i", 90_000_000) + b"xy")
    assert is_served(running)
    assert rss_kib(running) - before < 2_000
    for sock in socks:
        sock.close()


def test_case_47_garbage_closes(running: Running) -> None:
    chance = random.Random(47)
    for _ in range(200):
        sock = connect(running)
        body = chance.randbytes(chance.randrange(1, 200))
        sock.sendall(struct.pack(">i", len(body)) + body)
        sock.shutdown(socket.SHUT_WR)
        with sock:
            try:
                while sock.recv(1 << 16):
                    pass
            except ConnectionResetError:
                pass
    assert is_served(running)


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (3, 99), (3, -1), (1, 3)])
def test_case_47_unknown_api_or_version_closes(running: Running, key: int, version: int) -> None:
    sock = connect(running)
    sock.sendall(struct.pack(">ihhih", 10, key, version, 1, -1))
    assert is_closed(sock)


def test_case_47_apiversions_of_the_future_gets_35_in_v0_form(running: Running) -> None:
    with connect(running) as sock:
        header = struct.pack(">hhih", 18, 77, 7, 4) + b"test\0"
        sock.sendall(struct.pack(">i", len(header) + 9) + header + b"\xff" * 9)
        (size,) = struct.unpack(">i", read_exactly(sock, 4))
        body = read_exactly(sock, size)
        response = ApiVersions.decode_response(0, body, 4, size)
        assert response.error_code == errors.UnsupportedVersion.code
        [entry] = response.api_keys
        assert (entry.api_key, entry.min_version, entry.max_version) == (18, 0, 5)
        assert ask(sock, ApiVersions, 0, ApiVersions.Request())


def test_client_software_with_a_bad_name_is_an_invalid_request(running: Running) -> None:
    with connect(running) as sock:
        request = ApiVersions.Request(client_software_name="a b", client_software_version="1")
        response = ask(sock, ApiVersions, 3, request)
        assert response.error_code == errors.InvalidRequest.code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"\0\0\0\5\0\1a",
        b"\xff\xff\xff\xfe",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\1\0\2\xff\xfe\1",
    ],
    ids=["empty", "cut", "short", "negative", "count", "utf8"],
)
def test_case_48_malformed_metadata_closes(running: Running, body: bytes) -> None:
    sock = connect(running)
    header = struct.pack(">hhih", 3, 4, 1, -1)
    sock.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    assert is_closed(sock)


def test_case_48_trailing_bytes_close(running: Running) -> None:
    sock = connect(running)
    header = struct.pack(">hhih", 16, 0, 1, -1)  # ListGroups v0 has no body
    sock.sendall(struct.pack(">i", len(header) + 1) + header + b"x")
    assert is_closed(sock)


@pytest.mark.parametrize("tail", [b"\xff" * 6, b"\1\0\xff\xff\xff\xff\x0f"], ids=["long", "huge"])
def test_case_48_a_lying_varint_or_tag_closes(running: Running, tail: bytes) -> None:
    sock = connect(running)
    header = struct.pack(">hhih", 3, 9, 1, -1) + b"\0"
    sock.sendall(struct.pack(">i", len(header) + len(tail)) + header + tail)
    assert is_closed(sock)


def test_case_48_every_api_survives_every_truncation(running: Running) -> None:
    for api in ALL:
        version = api.max_version
        whole = api.encode_request(version, 1, "test", api.Request())
        assert isinstance(whole, bytes)
        for end in {5, len(whole) // 2, len(whole) - 1} - {len(whole)}:
            with connect(running) as sock:
                sock.sendall(struct.pack(">i", end - 4) + whole[4:end])
    assert is_served(running)


def test_case_49_a_silent_connection_is_closed(running: Running) -> None:
    began = time.monotonic()
    assert is_closed(connect(running))
    assert time.monotonic() - began < 4


def test_case_50_connections_of_one_address_are_limited(running: Running) -> None:
    socks = [connect(running, "127.0.0.2") for _ in range(3)]
    for sock in socks:
        assert ask(sock, ApiVersions, 0, ApiVersions.Request())
    assert is_closed(connect(running, "127.0.0.2"))
    for sock in socks:
        sock.close()


def test_case_51_a_client_that_never_reads_is_closed_and_costs_little(running: Running) -> None:
    before = rss_kib(running)
    request = ApiVersions.encode_request(0, 1, "test", ApiVersions.Request())
    assert isinstance(request, bytes)
    with connect(running) as sock:
        sock.settimeout(0.2)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += sock.send(request * 1_000)
        except (TimeoutError, ConnectionError):
            pass
        assert sent < 50_000_000
        assert rss_kib(running) - before < 8_000
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                sock.send(b"x")
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("never closed")
    assert is_served(running)


@pytest.mark.parametrize("name", ["../x", ".", "..", "", "a" * 250, "a/b", "ä", "a b", "a\0b"])
def test_case_52_bad_topic_names_are_refused_and_touch_no_path(running: Running, name: str) -> None:
    topic = CreateTopics.Request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with connect(running) as sock:
        created = ask(sock, CreateTopics, 5, CreateTopics.Request(topics=[topic], timeout_ms=1000))
        [result] = created.topics  # type: ignore[attr-defined]
        assert result.error_code == errors.InvalidTopicException.code
        asked = Metadata.Request.MetadataRequestTopic(name=name)
        request = Metadata.Request(topics=[asked], allow_auto_topic_creation=True)
        [answer] = ask(sock, Metadata, 4, request).topics  # type: ignore[attr-defined]
        assert answer.error_code == errors.InvalidTopicException.code


@pytest.mark.parametrize("acks", [-2, 2, 100, -32768])
def test_case_53_acks_out_of_range_are_refused(running: Running, acks: int) -> None:
    topic = CreateTopics.Request.CreatableTopic(name="here", num_partitions=1, replication_factor=1)
    with connect(running) as sock:
        ask(sock, CreateTopics, 5, CreateTopics.Request(topics=[topic], timeout_ms=1000))
        response = ask(sock, Produce, 9, produce(acks, "here"))
        [answer] = response.responses  # type: ignore[attr-defined]
        [partition] = answer.partition_responses
        assert partition.error_code == errors.InvalidRequiredAcks.code


def test_case_53_a_bad_request_with_acks_0_closes(running: Running) -> None:
    sock = connect(running)
    sock.sendall(Produce.encode_request(9, 1, "test", produce(0)))  # type: ignore[arg-type]
    assert is_closed(sock)


def produce(acks: int, name: str = "none") -> Produce.Request:
    """Returns a request with random bytes as a batch, by default for a topic that does not exist."""
    data = Produce.Request.PartitionProduceData(index=0, records=os.urandom(61))
    topic = Produce.Request.TopicProduceData(name=name, partition_data=[data])
    return Produce.Request(acks=acks, timeout_ms=1000, topic_data=[topic])


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
)
def test_case_58_connections_that_speak_other_protocols_are_closed(running: Running, first: bytes) -> None:
    sock = connect(running)
    sock.sendall(first + b"\0" * 100)
    assert is_closed(sock)
