"""A login at ZooKeeper by Kerberos, with a fake server of prepared answers and a fake Kerberos library."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.serialization import SASL, write_buffer

from pybroker.config.zookeeper_login import TicketLogin
from pybroker.store.kazoo_login import KazooLogin
from pyclient.protocol import gssapi
from pyclient.security import kerberos
from pyclient.security.tickets import Tickets
from pyclient.tests.security.fake_gssapi import SIGNED, UNREACHABLE, GSSError, Library

KAFKA = TicketLogin(Tickets("kafka/host", {}), "zookeeper", "Client of jaas.conf")
OFFER = SIGNED + gssapi.NONE_ONLY


class Connection:
    """kazoo's connection to a server that gives these answers; None is a refusal."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers: Iterator[bytes | None] = iter(answers)
        self.heard: list[tuple[int, bytes]] = []
        self._authenticate_with_sasl: Any = None

    def _submit(self, request: SASL, timeout: float, xid: int) -> None:
        self.heard.append((xid, request.challenge))

    def _read_header(self, timeout: float) -> tuple[Any, bytes, int]:
        answer = next(self._answers)
        return SimpleNamespace(err=answer is None), write_buffer(answer), 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(kerberos, "library", lambda: made)
    return made


class Kazoo:
    """A fake kazoo client with this connection."""

    def __init__(self, connection: Connection) -> None:
        self._told: list[str] = []
        client: Any = SimpleNamespace(_connection=connection)
        KazooLogin(client, KAFKA, lambda: self._told.append("done"), self._told.append)
        self._connection = connection

    def tried(self) -> list[str]:
        """Logs in like kazoo; returns what the store and kazoo are told."""
        self._told.clear()
        try:
            self._connection._authenticate_with_sasl("zk1", 1.0)
        except (AuthFailedError, ConnectionDropped) as error:
            self._told.append(type(error).__name__)
        return list(self._told)


def test_a_kerberos_ticket_logs_in_to_zookeeper(library: Library) -> None:
    connection = Connection(b"welcome", OFFER, b"")
    assert Kazoo(connection).tried() == ["done"]
    assert connection.heard == [(1, b"kafka/host to zookeeper@zk1"), (2, b""), (3, OFFER)]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((None,), "zk1 does not accept the login of kafka/host (Client of jaas.conf): it does not accept the ticket"),
        ((b"welcome", SIGNED + b"\2\0\0\0"), "the broker wants to sign or encrypt each message"),
        ((b"hello",), "no login at zk1 of kafka/host (Client of jaas.conf): the broker is another one"),
    ],
)
def test_a_zookeeper_that_refuses_the_ticket_or_does_not_prove_itself_ends_the_login(
    library: Library, answers: tuple[bytes | None, ...], why: str
) -> None:
    refusal, raised = Kazoo(Connection(*answers)).tried()
    assert why in refusal
    assert raised == "AuthFailedError"


def test_a_login_to_zookeeper_is_repeated_until_the_kdc_is_reachable(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    library.trouble = GSSError(UNREACHABLE, "no answer")
    connection = Connection(b"welcome", OFFER, b"")
    login = Kazoo(connection)
    assert login.tried() == login.tried() == ["ConnectionDropped"]
    assert caplog.text.count("no login at zk1 of kafka/host (Client of jaas.conf): no answer; is the KDC") == 1
    library.trouble = None
    assert login.tried() == ["done"]
