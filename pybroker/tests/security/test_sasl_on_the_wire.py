"""Requests before, during and after the login on a connection, byte by byte."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers import ROWS
from pybroker.net import sasl_connection
from pybroker.net.ratelimit import RateLimitedLog
from pybroker.net.sasl_connection import SaslConnection
from pybroker.net.strangers import Strangers
from pybroker.security.sasl import authentication
from pybroker.tests.security.test_sasl import SETTINGS, add_users, address
from pybroker.tests.security.test_tls import Running, running
from pybroker.tests.waiting import PATIENCE_S, until
from pyclient.protocol import (
    ApiVersions,
    DescribeConfigs,
    Fetch,
    ListGroups,
    Metadata,
    SaslAuthenticate,
    SaslHandshake,
    errors,
    scram,
)
from pyclient.protocol.frames import decode_response_header

GOOD = b"\0alice\0alice-secret"
EVERY_KEY = sorted({*range(95), *(row.api.key for row in ROWS)})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {**SETTINGS, "listeners": f"{SETTINGS['listeners']},OTHER://localhost:0",
                "listener.security.protocol.map": f"{SETTINGS['listener.security.protocol.map']},OTHER:SASL_PLAINTEXT",
                "listener.name.other.sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "sasl.server.max.receive.size": "4096", "listener.name.other.sasl.server.max.receive.size": "300",
                "connection.failed.authentication.delay.ms": "1",
                "listener.name.inside.plain.connections.max.reauth.ms": "3600000"}
    with running(tmp_path_factory.mktemp("wire"), **settings) as broker:
        add_users(broker)
        yield broker


class Raw:
    """A client that can send any bytes."""

    def __init__(self, served: Running, listener: str = "INSIDE") -> None:
        host, _, port = address(served, listener).rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.served = served

    def send(self, data: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def receive(self) -> bytes | None:
        """Returns the next frame, None at the end of the connection."""
        length = self._read(4)
        return self._read(struct.unpack(">i", length)[0]) if length else None

    def _read(self, count: int) -> bytes:
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while len(data) < count and (piece := self.socket.recv(count - len(data))):
                data += piece
        return data

    def ask(self, api: Any, version: int, **fields: Any) -> Any:
        """Sends a request; returns the response, None if the connection has ended."""
        frame = api.encode_request(version, 7, "raw", api.Request(**fields))
        self.socket.sendall(joined(frame))
        data = self.receive()
        if data is None:
            return None
        header = decode_response_header(api, version, data, 0, len(data))
        return api.decode_response(version, data, header.position, len(data))

    def login(self, message: bytes = GOOD, mechanism: str = "PLAIN") -> Any:
        assert self.ask(SaslHandshake, 1, mechanism=mechanism).error_code == 0
        return self.ask(SaslAuthenticate, 2, auth_bytes=message)

    def connection(self) -> SaslConnection:
        """Returns the broker's end of the connection."""
        own = self.socket.getsockname()[:2]
        return next(each for each in self.served.broker.net.connections if each.peer_address == own)


@pytest.fixture
def raw(served: Running) -> Iterator[Raw]:
    client = Raw(served)
    yield client
    client.socket.close()


def joined(*frames: Any) -> bytes:
    return b"".join(each if isinstance(each, bytes) else b"".join(each) for each in frames)


def head(key: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhih", key, 0, 1, -1) + body


@pytest.mark.parametrize("key", [key for key in EVERY_KEY if key not in (SaslHandshake.key, ApiVersions.key)])
def test_a_request_before_authentication_is_not_parsed_and_closes_the_connection(raw: Raw, key: int) -> None:
    raw.send(head(key, b"\xff" * 30))
    assert raw.receive() is None


@pytest.mark.parametrize("key", [key for key in EVERY_KEY if key != SaslAuthenticate.key])
def test_another_request_during_authentication_closes_the_connection(raw: Raw, key: int) -> None:
    assert raw.ask(SaslHandshake, 1, mechanism="PLAIN").error_code == 0
    raw.send(head(key, b"\xff" * 30))
    assert raw.receive() is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\x16\x03\x01\x02\0", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 40])
def test_bytes_that_are_not_a_request_end_the_connection(raw: Raw, data: bytes) -> None:
    raw.send(data)
    assert raw.receive() is None


@pytest.mark.parametrize(("listener", "most"), [("INSIDE", 4096), ("OTHER", 300)])
def test_a_frame_longer_than_its_listener_allows_ends_the_connection_with_one_line(
    served: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, listener: str, most: int
) -> None:
    monkeypatch.setattr(served.broker.net, "log", RateLimitedLog(logging.getLogger(__name__)))
    short, long = Raw(served, listener), Raw(served, listener)
    assert short.ask(ApiVersions, 3, client_software_name="x" * (most - 20), client_software_version="1") is not None
    with caplog.at_level(logging.INFO):
        long.socket.sendall(struct.pack(">i", most + 1))
        assert long.receive() is None
    (line,) = caplog.messages
    assert line.endswith(f"to {listener}: frame length {most + 1} is not in 0..{most}")


def test_all_unauthenticated_clients_share_one_limit_for_long_frames(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: a thousand of them could occupy half a gigabyte for as long as they reconnected."""
    monkeypatch.setattr(sasl_connection, "LARGE", 1_000)
    monkeypatch.setattr(sasl_connection, "MOST_OF_STRANGERS", 10_000)
    body = joined(ApiVersions.encode_request(3, 7, "raw", ApiVersions.Request(client_software_name="x" * 3_900)))
    short, *long = (Raw(served) for _ in range(6))

    def holds_much(raw: Raw) -> bool:
        own = raw.socket.getsockname()[:2]
        found = [each for each in list(served.broker.net.connections) if each.peer_address == own]
        return any(each._reader.taken > 1_000 for each in found)

    short.socket.sendall(body[:100])
    for each in long:
        each.socket.sendall(body[:3_500])
        until(partial(holds_much, each))
    assert [each.receive() for each in long[:3]] == [None] * 3
    for each, begin in ((short, 100), (long[3], 3_500), (long[4], 3_500)):
        each.socket.sendall(body[begin:])
        assert each.receive() is not None


def test_long_frames_within_their_limit_are_counted_without_a_look_at_other_clients(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: with a thousand clients, each piece of a frame took 70 µs of the loop."""
    monkeypatch.setattr(sasl_connection, "LARGE", 1_000)
    monkeypatch.setattr(Strangers, "holders", None)
    body = joined(ApiVersions.encode_request(3, 7, "raw", ApiVersions.Request(client_software_name="x" * 3_900)))
    strangers = served.broker.net.strangers["INSIDE"]
    answered, closed = Raw(served), Raw(served)
    for raw in (answered, closed):
        raw.socket.sendall(body[:3_000])
    until(lambda: strangers.held >= 6_000)
    answered.socket.sendall(body[3_000:])
    assert answered.receive() is not None
    closed.socket.close()
    until(lambda: not strangers.held)


def test_memory_of_an_unauthenticated_client_counts_until_it_authenticates() -> None:
    strangers, one, other = Strangers[str](), "one", "other"
    for each, held in ((one, 3), (other, 5)):
        strangers.add(each)
        strangers.note(each, held)
    strangers.note(one, 4)
    assert (strangers.held, strangers.holders(), list(strangers)) == (9, [one, other], [one, other])
    strangers.drop(one)
    strangers.note(one, 7)
    assert (strangers.held, strangers.holders(), len(strangers)) == (5, [other], 1)
    strangers.note(other, 0)
    assert (strangers.held, strangers.holders(), len(strangers)) == (0, [], 1)


def test_a_long_frame_is_read_after_the_client_has_authenticated(served: Running) -> None:
    late = Raw(served)
    assert late.login().error_code == 0
    names = [Metadata.Request.MetadataRequestTopic(name="x" * 200) for _ in range(100)]
    assert late.ask(Metadata, 1, topics=names) is not None


def test_api_versions_is_served_before_authentication(raw: Raw) -> None:
    assert len(raw.ask(ApiVersions, 0).api_keys) > 20
    assert raw.login().error_code == 0
    assert raw.ask(ListGroups, 0).error_code == 0
    assert raw.connection().principal == "User:alice"


def test_requests_after_the_last_sasl_message_are_served_in_order(served: Running) -> None:
    client = Raw(served)
    frames = [
        SaslHandshake.encode_request(1, 1, None, SaslHandshake.Request(mechanism="PLAIN")),
        SaslAuthenticate.encode_request(2, 2, None, SaslAuthenticate.Request(auth_bytes=GOOD)),
        ListGroups.encode_request(0, 3, None, ListGroups.Request()),
    ]
    client.socket.sendall(joined(*frames))
    told = [client.receive() for _ in frames]
    assert [struct.unpack(">i", each[:4])[0] for each in told if each] == [1, 2, 3]


def test_requests_behind_a_wrong_password_are_not_served(served: Running) -> None:
    client = Raw(served)
    frames = [
        SaslHandshake.encode_request(1, 1, None, SaslHandshake.Request(mechanism="PLAIN")),
        SaslAuthenticate.encode_request(2, 2, None, SaslAuthenticate.Request(auth_bytes=b"\0alice\0wrong")),
        ListGroups.encode_request(0, 3, None, ListGroups.Request()),
        SaslAuthenticate.encode_request(2, 4, None, SaslAuthenticate.Request(auth_bytes=GOOD)),
    ]
    client.socket.sendall(joined(*frames))
    told = [client.receive() for _ in range(3)]
    assert [each and struct.unpack(">i", each[:4])[0] for each in told] == [1, 2, None]


def test_a_wrong_password_gets_kafkas_error_and_ends_the_connection(
    raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        answer = raw.login(b"\0alice\0hunter2")
        assert raw.receive() is None
    says = "Authentication failed: Invalid username or password"
    assert (answer.error_code, answer.error_message) == (errors.SaslAuthenticationFailed.code, says)
    assert "hunter2" not in caplog.text


def test_an_unsupported_mechanism_is_answered_with_the_supported_ones(raw: Raw) -> None:
    answer = raw.ask(SaslHandshake, 1, mechanism="GSSAPI")
    assert answer.error_code == errors.UnsupportedSaslMechanism.code
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert raw.receive() is None


@pytest.mark.parametrize("version", [0, 1])
def test_old_clients_send_messages_without_requests_around_them(raw: Raw, version: int) -> None:
    assert raw.ask(SaslHandshake, 0, mechanism="SCRAM-SHA-512").error_code == 0
    first = scram.client_first("bob", "nonce")
    raw.send(first.message)
    challenge = scram.read_server_first(raw.receive() or b"")
    salted = scram.salted_password(scram.SHA_512, 'b"o b=,', challenge.salt, challenge.iterations)
    raw.send(scram.client_final(first, challenge, scram.SHA_512, salted).message)
    assert scram.read_server_final(raw.receive() or b"").signature
    assert raw.ask(ListGroups, version).error_code == 0


def test_old_clients_with_a_wrong_password_are_disconnected(raw: Raw) -> None:
    assert raw.ask(SaslHandshake, 0, mechanism="PLAIN").error_code == 0
    raw.send(b"\0alice\0wrong")
    assert raw.receive() is None


def test_a_session_expires_and_a_client_that_re_authenticates_continues(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)
    assert raw.login().session_lifetime_ms == 3_600_000
    assert raw.ask(ListGroups, 0).error_code == 0
    assert raw.login().session_lifetime_ms == 3_600_000
    assert raw.ask(ListGroups, 0).error_code == 0
    raw.connection().sasl._expires_at = 0.0  # type: ignore[attr-defined]
    assert raw.ask(ListGroups, 0) is None


def test_waiting_requests_get_no_answer_if_re_authentication_fails(
    raw: Raw, served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)
    raw.login()
    topic = Metadata.Request.MetadataRequestTopic(name="waiting")
    while raw.ask(Metadata, 4, topics=[topic], allow_auto_topic_creation=True).topics[0].error_code:
        pass
    partition = Fetch.Request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    wanted = Fetch.Request.FetchTopic(topic="waiting", partitions=[partition])
    waits_ms = int(10 * PATIENCE_S * 1000)
    fetch = Fetch.Request(max_wait_ms=waits_ms, min_bytes=1, max_bytes=1, topics=[wanted])
    frames = [
        Fetch.encode_request(4, 1, None, fetch),
        SaslHandshake.encode_request(1, 2, None, SaslHandshake.Request(mechanism="PLAIN")),
        SaslAuthenticate.encode_request(2, 3, None, SaslAuthenticate.Request(auth_bytes=b"\0alice\0wrong")),
    ]
    raw.socket.sendall(joined(*frames))
    assert raw.receive() is None


def test_a_long_frame_is_not_read_during_re_authentication(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)
    raw.login()
    names = [Metadata.Request.MetadataRequestTopic(name="x" * 200) for _ in range(100)]
    raw.login()
    assert raw.ask(Metadata, 1, topics=names) is not None
    handshake = SaslHandshake.encode_request(1, 2, None, SaslHandshake.Request(mechanism="PLAIN"))
    raw.socket.sendall(joined(handshake) + struct.pack(">i", 4097))
    assert raw.receive() is not None
    assert raw.receive() is None


def test_re_authentication_as_another_user_is_refused(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)
    raw.login()
    answer = raw.login(b'\0bob\0b"o b=,')
    assert answer.error_message == "Cannot change principals during re-authentication"
    assert raw.receive() is None


def test_a_session_without_a_limit_needs_no_re_authentication(raw: Raw, served: Running) -> None:
    client = Raw(served)
    assert client.ask(SaslHandshake, 1, mechanism="SCRAM-SHA-256").error_code == 0
    first = scram.client_first("alice", "nonce")
    challenge = scram.read_server_first(client.ask(SaslAuthenticate, 2, auth_bytes=first.message).auth_bytes)
    salted = scram.salted_password(scram.SHA_256, "alice-secret", challenge.salt, challenge.iterations)
    final = scram.client_final(first, challenge, scram.SHA_256, salted)
    assert client.ask(SaslAuthenticate, 2, auth_bytes=final.message).session_lifetime_ms == 0
    assert client.ask(SaslHandshake, 1, mechanism="SCRAM-SHA-256").error_code == errors.IllegalSaslState.code
    answer = client.ask(SaslAuthenticate, 2, auth_bytes=b"x")
    assert answer.error_code == errors.IllegalSaslState.code
    assert client.ask(ListGroups, 0).error_code == 0


def test_a_silent_unauthenticated_client_is_disconnected(served: Running) -> None:
    silent = Raw(served)
    own = silent.socket.getsockname()[:2]
    served.until(lambda: any(each.peer_address == own for each in served.broker.net.connections))
    connection = silent.connection()
    limit_s = served.broker.net.limits.handshake_s
    assert connection.is_overdue(connection.active_at + limit_s) is None
    assert connection.is_overdue(connection.active_at + limit_s + 1) == "it did not authenticate within 10 s"
    known = Raw(served)
    known.login()
    assert known.connection().is_overdue(connection.active_at + limit_s + 1) is None


def test_silent_unauthenticated_clients_make_room_for_others(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    net = served.broker.net
    known = Raw(served)
    assert known.login().error_code == 0
    monkeypatch.setattr(net, "limits", replace(net.limits, max_handshakes=2))
    first = Raw(served)
    assert first.ask(ApiVersions, 0) is not None
    later = [Raw(served) for _ in range(2)]
    assert first.receive() is None
    assert [each.ask(ApiVersions, 0) is None for each in later] == [False, False]
    assert known.ask(ListGroups, 0).error_code == 0
    assert later[1].login().error_code == 0
    assert len(net.strangers["INSIDE"]) == 1


def test_unauthenticated_clients_of_one_listener_do_not_block_another(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = served.broker.net
    monkeypatch.setattr(net, "limits", replace(net.limits, max_handshakes=2))
    slow = Raw(served)
    assert slow.ask(ApiVersions, 0) is not None
    others = [Raw(served, "OTHER") for _ in range(4)]
    assert [each.receive() for each in others[:2]] == [None, None]
    assert slow.login().error_code == 0


def test_silent_clients_do_not_use_up_the_connection_limit_of_others(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = served.broker.net
    known = Raw(served)
    assert known.login().error_code == 0
    served.until(lambda: net.count() == 1)
    monkeypatch.setattr(net, "limits", replace(net.limits, max_connections=4))
    silent = [Raw(served, listener) for listener in ("INSIDE", "OTHER", "OTHER")]
    served.until(lambda: net.count() == 4)
    plain = Raw(served, "PLAINTEXT")
    assert plain.ask(ListGroups, 0).error_code == 0
    assert silent[1].receive() is None
    late = Raw(served)
    assert late.login().error_code == 0
    handshake = Raw(served, "OUTSIDE")
    served.until(lambda: bool(net.handshakes["OUTSIDE"].open))
    assert Raw(served, "PLAINTEXT").ask(ListGroups, 0).error_code == 0
    assert handshake.receive() is None
    assert [each.ask(ListGroups, 0).error_code for each in (known, plain, late)] == [0, 0, 0]


def test_a_plaintext_listener_begins_no_authentication(served: Running) -> None:
    plain = Raw(served, "PLAINTEXT")
    assert plain.ask(SaslHandshake, 1, mechanism="PLAIN").error_code == errors.IllegalSaslState.code
    assert plain.ask(ListGroups, 0).error_code == 0
    assert type(plain.connection()).__name__ == "Connection"


def test_no_request_shows_a_password(raw: Raw) -> None:
    raw.login()
    resource = DescribeConfigs.Request.DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name="1")
    answer = raw.ask(DescribeConfigs, 4, resources=[resource], include_synonyms=True)
    shown = {each.name: each for each in answer.results[0].configs if each.name.endswith("sasl.jaas.config")}
    assert "listener.name.inside.plain.sasl.jaas.config" in shown
    assert all(each.is_sensitive and each.value is None for each in shown.values())
    assert "alice-secret" not in repr(answer)


def test_garbage_costs_its_connection_only(served: Running) -> None:
    chance = random.Random(0)
    for _ in range(300):
        client = Raw(served)
        with contextlib.suppress(OSError), client.socket:
            if chance.random() < 0.5:
                handshake = SaslHandshake.Request(mechanism=chance.choice(["PLAIN", "SCRAM-SHA-256", "x"]))
                client.socket.sendall(joined(SaslHandshake.encode_request(chance.randrange(2), 1, None, handshake)))
            client.send(chance.randbytes(chance.randrange(60)))
            client.socket.shutdown(socket.SHUT_WR)
            while client.receive():
                pass
    assert Raw(served).login().error_code == 0
