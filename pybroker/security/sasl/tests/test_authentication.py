"""Which requests a client may send before, during and after its login, as a state machine without socket or clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pybroker.handlers import ROWS
from pybroker.security.sasl.authentication import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, Authentication
from pybroker.security.sasl.plain import MOST_BYTES, Plain
from pybroker.security.sasl.scram_credentials import from_text, to_text
from pybroker.security.sasl.scram_server import ScramUsers, Stored
from pyclient.protocol import scram
from pyclient.protocol.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from pyclient.protocol.scram import Credential

METADATA = 3
GOOD, WRONG, UNKNOWN = b"\0alice\0alice-secret", b"\0alice\0wrong", b"\0nobody\0alice-secret"
SCRAM = scram.SHA_256
SALT = b"abcdefghijklmnopqrstuvwxyz"
CREDENTIAL = scram.credential(SCRAM, scram.salted_password(SCRAM, "alice-secret", SALT, 4096), SALT, 4096)
STORED = {"alice": {SCRAM.name: to_text(CREDENTIAL)}, "broken": {SCRAM.name: "salt=x"}, "none": {}}


def made(max_reauth_ms: int = 0) -> Authentication:
    users = ScramUsers(SCRAM, Stored(lambda user: STORED.get(user, {}), lambda: STORED), b"secret of the cluster")
    mechanisms = {"PLAIN": Plain({"alice": "alice-secret", "bob": "bob-secret"}), SCRAM.name: users}
    return Authentication("INSIDE", mechanisms, dict.fromkeys(mechanisms, max_reauth_ms))


def known(max_reauth_ms: int = 0, now_s: float = 0.0) -> Authentication:
    sasl = made(max_reauth_ms)
    sasl.on_handshake("PLAIN", is_framed=True, now_s=now_s)
    sasl.on_message(GOOD, now_s)
    return sasl


def admitted(sasl: Authentication, now_s: float = 0.0) -> set[int]:
    """Returns the APIs that are allowed now."""

    def may(key: int) -> bool:
        try:
            sasl.admit(key, now_s)
        except IllegalSaslState:
            return False
        return True

    return {row.api.key for row in ROWS if may(row.api.key)}


EVERY = {row.api.key for row in ROWS}


def test_only_some_apis_are_admitted_before_and_during_authentication() -> None:
    sasl = made()
    assert admitted(sasl) == {API_VERSIONS, SASL_HANDSHAKE}
    sasl.on_handshake(SCRAM.name, is_framed=True, now_s=0)
    assert admitted(sasl) == {SASL_AUTHENTICATE}
    sasl.on_message(b"n,,n=alice,r=x", 0)
    assert admitted(sasl) == {SASL_AUTHENTICATE}
    with pytest.raises(SaslAuthenticationFailed):
        sasl.on_message(b"c=biws,r=x,p=eA==", 0)
    assert admitted(sasl) == set()
    assert admitted(known()) == EVERY
    with pytest.raises(IllegalSaslState):
        made().admit(-1, 0)


def test_a_right_password_makes_the_client_known() -> None:
    sasl = made()
    sasl.on_handshake("PLAIN", is_framed=True, now_s=0)
    assert sasl.on_message(GOOD, 0) == b""
    assert (sasl.user, sasl.is_known, sasl.is_open, sasl.lifetime_ms) == ("alice", True, True, 0)
    with pytest.raises(IllegalSaslState, match="after successful authentication"):
        sasl.on_message(GOOD, 0)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (WRONG, "Authentication failed: Invalid username or password"),
        (UNKNOWN, "Authentication failed: Invalid username or password"),
        (b"\0\0x", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"bob\0alice\0alice-secret", "different from username"),
        (b"bob\0alice\0wrong", "Invalid username or password"),
        (b"", "due to invalid credentials with SASL mechanism PLAIN"),
        (GOOD + b"\0", "due to invalid credentials with SASL mechanism PLAIN"),
        (b"\0alice\0" + b"\0" * MOST_BYTES, "due to invalid credentials with SASL mechanism PLAIN"),
        (b"\0\xff\0\xfe", "due to invalid credentials with SASL mechanism PLAIN"),
    ],
)
def test_plain_refuses_malformed_and_wrong_credentials(message: bytes, says: str) -> None:
    sasl = made()
    sasl.on_handshake("PLAIN", is_framed=True, now_s=0)
    with pytest.raises(SaslAuthenticationFailed, match=says):
        sasl.on_message(message, 0)
    assert (sasl.user, sasl.is_strange, sasl.is_over) == (None, True, True)


def test_cve_2017_12610_an_authorization_id_that_is_the_user_is_accepted() -> None:
    sasl = made()
    sasl.on_handshake("PLAIN", is_framed=True, now_s=0)
    sasl.on_message(b"alice" + GOOD, 0)
    assert sasl.user == "alice"


def conversation(
    user: str, password: str, *, nonce: Callable[[str], str] = str, first: bytes = b"", binding: str = "biws"
) -> Authentication:
    """Runs SCRAM as a client does, with errors."""
    sasl = made()
    sasl.on_handshake(SCRAM.name, is_framed=True, now_s=0)
    said = scram.client_first(user, "client-nonce")
    challenge = scram.read_server_first(sasl.on_message(first or said.message, 0))
    salted = scram.salted_password(SCRAM, password, challenge.salt, challenge.iterations)
    final = scram.ClientFinal(nonce(challenge.nonce), b"", f"c={binding},r={nonce(challenge.nonce)}")
    said = scram.read_client_first(first) if first else said
    proof = scram.client_proof(SCRAM, salted, scram.auth_message(said, challenge, final))
    answer = sasl.on_message(final._replace(proof=proof).message, 0)
    signature = scram.server_signature(
        SCRAM, scram.server_key(SCRAM, salted), scram.auth_message(said, challenge, final)
    )
    assert scram.read_server_final(answer).signature == signature
    return sasl


def test_scram_authenticates_client_and_broker() -> None:
    assert conversation("alice", "alice-secret").user == "alice"
    assert conversation("alice", "alice-secret", first=b"n,a=alice,n=alice,r=x", binding="bixhPWFsaWNlLA==").is_known


def test_the_doubled_nonce_of_an_old_librdkafka_is_accepted() -> None:
    assert conversation("alice", "alice-secret", nonce=lambda nonce: f"client-nonce{nonce}").user == "alice"


@pytest.mark.parametrize(
    ("user", "password", "slips"),
    [
        ("alice", "wrong", {}),
        ("nobody", "alice-secret", {}),
        ("none", "alice-secret", {}),
        ("broken", "alice-secret", {}),
        ("alice", "alice-secret", {"nonce": lambda nonce: "client-nonce"}),
        ("alice", "alice-secret", {"nonce": lambda nonce: nonce + "x"}),
        ("alice", "alice-secret", {"nonce": lambda nonce: "x" + nonce}),
        ("alice", "alice-secret", {"binding": "eSws"}),
        ("alice", "alice-secret", {"first": b"n,,n=alice,r=x,tokenauth=true"}),
    ],
)
def test_cve_2024_56128_scram_refuses_every_error_alike(
    user: str, password: str, slips: dict[str, object]
) -> None:
    with pytest.raises(SaslAuthenticationFailed) as caught:
        conversation(user, password, **slips)  # type: ignore[arg-type]
    says = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    assert str(caught.value) == says


def test_scram_refuses_another_authorization_id() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="different from username"):
        conversation("alice", "alice-secret", first=b"n,a=bob,n=alice,r=x")


def test_an_unknown_user_always_gets_the_same_plausible_challenge() -> None:
    def challenge(user: str) -> scram.ServerFirst:
        sasl = made()
        sasl.on_handshake(SCRAM.name, is_framed=True, now_s=0)
        return scram.read_server_first(sasl.on_message(scram.client_first(user, "x").message, 0))

    first, again, other, real = map(challenge, ("nobody", "nobody", "nobody else", "alice"))
    assert first.salt == again.salt != other.salt
    assert first.nonce != again.nonce
    assert (len(first.salt), first.iterations, len(first.nonce)) == (len(real.salt), real.iterations, len(real.nonce))


def test_unknown_users_get_plausible_stable_iterations() -> None:
    stored = {
        name: {SCRAM.name: to_text(Credential(SALT, SALT, SALT, iterations)), "x": "iterations=5"}
        for iterations, count in ((4096, 30), (8192, 60), (16_384, 10))
        for name in (f"{iterations}-{number}" for number in range(count))
    }
    configs = {**stored, "topic": {"retention.ms": "iterations=6"}, "broken": {SCRAM.name: "salt=x"}}
    users = ScramUsers(SCRAM, Stored(lambda user: configs.get(user, {}), lambda: configs), b"secret")

    def given() -> list[int]:
        return [users.credential(f"nobody-{number}").iterations for number in range(2000)]

    first = given()
    assert {each: round(count / 200) for each, count in Counter(first).items()} == {4096: 3, 8192: 6, 16_384: 1}
    assert users.credential("broken").iterations in (4096, 8192, 16_384)
    assert given() == first
    configs = configs | {"another": stored["8192-0"]}
    assert sum(before != after for before, after in zip(first, given(), strict=True)) < 40
    configs = {}
    assert set(given()) == {4096}


def test_a_disabled_mechanism_ends_the_authentication() -> None:
    sasl = made()
    with pytest.raises(UnsupportedSaslMechanism, match="INSIDE has only PLAIN, SCRAM-SHA-256"):
        sasl.on_handshake("SCRAM-SHA-512", is_framed=True, now_s=0)
    assert admitted(sasl) == set()


def test_messages_without_frames_follow_the_handshake_of_old_clients() -> None:
    sasl = made()
    sasl.on_handshake("PLAIN", is_framed=False, now_s=0)
    assert sasl.takes_tokens
    sasl.on_message(GOOD, 0)
    assert not sasl.takes_tokens
    assert sasl.user == "alice"


def test_a_session_ends_unless_the_client_re_authenticates() -> None:
    sasl = known(max_reauth_ms=10_000)
    assert (sasl.is_open, sasl.lifetime_ms) == (False, 10_000)
    assert admitted(sasl, 9.9) == EVERY
    assert admitted(sasl, 10.0) == {SASL_HANDSHAKE}
    sasl.on_handshake("PLAIN", is_framed=True, now_s=10)
    assert admitted(sasl, 10) == {SASL_AUTHENTICATE}
    sasl.on_message(GOOD, 11)
    assert admitted(sasl, 20.9) == EVERY
    assert admitted(sasl, 21.0) == {SASL_HANDSHAKE}


def test_re_authentication_keeps_user_and_mechanism() -> None:
    sasl = known(max_reauth_ms=10_000)
    sasl.on_handshake("PLAIN", is_framed=True, now_s=5)
    with pytest.raises(SaslAuthenticationFailed, match="Cannot change principals"):
        sasl.on_message(b"\0bob\0bob-secret", 5)
    assert (sasl.user, admitted(sasl, 5)) == ("alice", set())
    sasl = known(max_reauth_ms=10_000)
    sasl.on_handshake(SCRAM.name, is_framed=True, now_s=5)
    with pytest.raises(SaslAuthenticationFailed, match=r"'SCRAM-SHA-256' requested .* re-authentication of .*'PLAIN'"):
        sasl.on_message(b"n,,n=alice,r=x", 5)


def test_a_wrong_password_at_re_authentication_ends_the_connection() -> None:
    sasl = known(max_reauth_ms=10_000)
    sasl.on_handshake("PLAIN", is_framed=True, now_s=5)
    with pytest.raises(SaslAuthenticationFailed, match="Invalid username"):
        sasl.on_message(WRONG, 5)
    assert admitted(sasl, 5) == set()


def test_a_handshake_out_of_place_changes_nothing() -> None:
    for_ever = known()
    with pytest.raises(IllegalSaslState, match="no end"):
        for_ever.on_handshake("PLAIN", is_framed=True, now_s=5)
    assert for_ever.is_open
    often = known(max_reauth_ms=10_000)
    with pytest.raises(IllegalSaslState, match="too often"):
        often.on_handshake("PLAIN", is_framed=True, now_s=0.5)
    assert admitted(often, 0.5) == EVERY


def test_a_broker_that_has_proved_itself_may_ask_and_a_client_cannot_become_one() -> None:
    peer = made()
    peer.on_peer()
    assert admitted(peer) == {SASL_AUTHENTICATE}
    peer.on_proved()
    assert (admitted(peer), peer.user) == (EVERY, None)
    with pytest.raises(IllegalSaslState):
        known().on_peer()


@given(some.lists(some.binary(max_size=40) | some.text("nar=,\0xyz", max_size=20).map(str.encode), max_size=4))
@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM.name])
def test_garbage_authenticates_no_client(mechanism: str, messages: list[bytes]) -> None:
    sasl = made()
    sasl.on_handshake(mechanism, is_framed=True, now_s=0)
    with suppress(SaslAuthenticationFailed):
        for message in messages:
            sasl.on_message(message, 0)
    assert (sasl.user, sasl.is_strange) == (None, True)


def test_stored_credentials_have_kafkas_form() -> None:
    text = to_text(CREDENTIAL)
    assert [part.partition("=")[0] for part in text.split(",")] == ["salt", "stored_key", "server_key", "iterations"]
    assert from_text(text) == CREDENTIAL


@given(some.text("salt=,stored_key=server_key=iterations=0123456789ab+/", max_size=60))
def test_a_malformed_stored_password_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        from_text(text)
