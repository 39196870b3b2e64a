"""GSSAPI at the broker, with a fake Kerberos library: tokens, the layers, the name, and refused logins."""

from __future__ import annotations

import re
import sys

import pytest

from pybroker.config import ConfigError
from pybroker.config.sasl_listeners import Kerberos
from pybroker.pools import Inline
from pybroker.security.sasl.authentication import Authentication
from pybroker.security.sasl.kerberos import kerberized
from pyclient.protocol import gssapi
from pyclient.protocol.errors import SaslAuthenticationFailed
from pyclient.security import kerberos
from pyclient.tests.security.fake_gssapi import SIGNED, Library

SERVICE = Kerberos("kafka/localhost@REALM.COM", "/etc/kafka.keytab", ("RULE:[2:$1-of-$2]", "DEFAULT"))
HELLO = b"alice to kafka@localhost"
CHOICE = SIGNED + gssapi.NONE_ONLY


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(kerberos, "library", lambda: made)
    return made


class Client:
    """The client's side of an exchange: its messages, and the broker's answers."""

    def __init__(self, sasl: Authentication | None = None, now_s: float = 0.0) -> None:
        mechanisms = {"GSSAPI": kerberized("INSIDE", SERVICE, Inline())}
        self.sasl = sasl or Authentication("INSIDE", mechanisms, {"GSSAPI": 60_000})
        self.sasl.on_handshake("GSSAPI", is_framed=True, now_s=now_s)
        self.now_s = now_s

    def say(self, *messages: bytes) -> bytes:
        for message in messages:
            future = self.sasl.on_message(message, self.now_s)
            assert not isinstance(future, bytes), "a thread makes each answer"
            answer = self.sasl.on_answer(future, self.now_s)
        return answer

    def refused(self, *messages: bytes) -> str:
        """Returns the reason in the log. The client always gets the same text."""
        with pytest.raises(SaslAuthenticationFailed, match="due to invalid credentials") as caught:
            self.say(*messages)
        assert self.sasl.is_over
        return str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("who", "user"), [("alice", "alice"), ("alice/h", "alice-of-h"), ("alice@REALM.COM", "alice")]
)
def test_a_client_that_has_a_ticket_is_known_by_the_short_name_of_its_principal(who: str, user: str) -> None:
    client = Client()
    assert client.say(HELLO.replace(b"alice", who.encode())) == b"welcome"
    assert client.sasl.is_strange
    assert client.say(b"") == SIGNED + b"\x01\0\0\0"
    assert client.say(CHOICE) == b""
    assert (client.sasl.user, client.sasl.is_known, client.sasl.lifetime_ms) == (user, True, 60_000)


def test_a_client_without_mutual_authentication_gets_the_layers_at_once() -> None:
    client = Client()
    assert client.say(b"hasty to kafka@localhost") == SIGNED + b"\x01\0\0\0"
    client.say(CHOICE)
    assert client.sasl.user == "hasty"


def test_the_requested_authorization_id_does_not_count() -> None:
    client = Client()
    client.say(HELLO, b"", CHOICE + b"admin")
    assert client.sasl.user == "alice"


def test_re_authentication_needs_the_same_user() -> None:
    client = Client()
    client.say(HELLO, b"", CHOICE)
    again = Client(client.sasl, 30.0)
    again.say(HELLO, b"", CHOICE)
    assert again.sasl.is_known
    other = Client(client.sasl, 60.0)
    other.say(HELLO.replace(b"alice", b"bob"), b"")
    with pytest.raises(SaslAuthenticationFailed, match="Cannot change principals"):
        other.say(CHOICE)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([b"alice to other@localhost"], "it does not fit"),
        ([b"alice to late"], "it does not fit; the clocks differ"),
        ([b"x" * (gssapi.MOST_BYTES + 1)], "or one of more than 65536 bytes"),
        ([HELLO, b"more"], "a token came after the last one"),
        ([HELLO, b"", b"\x01\0\0\0"], "it is not signed"),
        ([HELLO, b"", SIGNED + b"\x01\0\0"], "wants to sign or encrypt"),
        ([HELLO, b"", SIGNED + b"\x02\0\0\0"], "wants to sign or encrypt"),
        ([HELLO, b"", SIGNED + b"\x05\0\0\0"], "wants to sign or encrypt"),
        ([b"alice@OTHER.COM to kafka@localhost", b"", CHOICE], "no rule of .* matches the principal alice@OTHER.COM"),
        ([b"nobody to kafka@localhost", b"", CHOICE], "the client is anonymous"),
        ([b"a\\/admin to kafka@localhost", b"", CHOICE], "does not have the form"),
    ],
)
def test_kerberos_errors_are_logged_and_not_sent(messages: list[bytes], why: str) -> None:
    assert re.search(why, Client().refused(*messages))


def test_the_number_of_messages_is_limited() -> None:
    exchange = kerberized("INSIDE", SERVICE, Inline()).begin()
    for _ in range(gssapi.MOST_STEPS):
        exchange.on_message(b"")
    with pytest.raises(ValueError, match="more than 8 messages"):
        exchange.on_message(b"")


def test_a_listener_without_the_library_a_key_or_rules_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = SERVICE._replace(principal="absent/localhost")
    with pytest.raises(ConfigError, match=r"INSIDE: GSSAPI: /etc/kafka.keytab does not serve absent/loc.*: no key"):
        kerberized("INSIDE", absent, Inline())
    with pytest.raises(ConfigError, match="INSIDE: GSSAPI: 'RULE' is neither DEFAULT nor"):
        kerberized("INSIDE", SERVICE._replace(rules=("RULE",)), Inline())
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'pybroker\[gssapi\]'"):
        kerberized("INSIDE", SERVICE, Inline())
