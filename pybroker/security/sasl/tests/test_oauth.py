"""Which OAUTHBEARER tokens are valid, and for which user."""

from __future__ import annotations

import base64
import json
import logging
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from pybroker.config import ConfigError
from pybroker.config.sasl_listeners import OAuth
from pybroker.security.sasl.authentication import Authentication, BadMessage
from pybroker.security.sasl.oauth import Tokens, read
from pyclient.protocol.errors import SaslAuthenticationFailed

NOW_S = 1_000_000
RSA, EC = RSAKey.generate_key(2048, {"kid": "r"}), ECKey.generate_key("P-256", {"kid": "e"})
CLAIMS = {"sub": "alice", "iss": "https://issuer", "aud": ["kafka", "x"], "iat": NOW_S - 10, "exp": NOW_S + 60}
REFUSED = b'{"status":"invalid_token"}'


def keys_file(folder: Path, *keys: Any) -> Path:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))
    return path


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    path = keys_file(tmp_path, RSA, EC)
    return Tokens("OUTSIDE", OAuth(str(path), "https://issuer", ("kafka",), 30, "sub"), lambda: NOW_S)


def signed(key: Any = RSA, alg: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    changed = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    head = {"alg": alg, "kid": key.kid} if header is None else header
    return str(jwt.encode(head, changed, key, algorithms=[alg]))


def message(token: str, identity: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {token}\x01\x01".encode()


def begun(tokens: Tokens, max_reauth_ms: int = 0) -> Authentication:
    sasl = Authentication("OUTSIDE", {"OAUTHBEARER": tokens}, {"OAUTHBEARER": max_reauth_ms})
    sasl.on_handshake("OAUTHBEARER", is_framed=True, now_s=0)
    return sasl


@pytest.mark.parametrize(("key", "alg"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256")])
@pytest.mark.parametrize("identity", ["", "a=alice"])
def test_a_token_makes_its_subject_known_until_it_expires(tokens: Tokens, key: Any, alg: str, identity: str) -> None:
    sasl = begun(tokens)
    assert sasl.on_message(message(signed(key, alg), identity), 0) == b""
    assert (sasl.user, sasl.lifetime_ms) == ("alice", 60_000)


@pytest.mark.parametrize(("most_ms", "lifetime_ms"), [(10_000, 10_000), (100_000, 60_000)])
def test_a_session_ends_with_its_token_or_before(tokens: Tokens, most_ms: int, lifetime_ms: int) -> None:
    sasl = begun(tokens, most_ms)
    sasl.on_message(message(signed()), 0)
    assert sasl.lifetime_ms == lifetime_ms


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 31},
        {"exp": None},
        {"exp": "tomorrow"},
        {"iat": None},
        {"iat": "yesterday"},
        {"exp": math.nan},
        {"nbf": NOW_S + 31},
        {"iss": "https://other"},
        {"iss": None},
        {"aud": "other"},
        {"aud": []},
        {"aud": None},
        {"sub": None},
        {"sub": " "},
        {"sub": 5},
    ],
)
def test_a_token_that_is_not_for_us_is_refused(tokens: Tokens, claims: dict[str, object]) -> None:
    refused(tokens, message(signed(**claims)))


@pytest.mark.parametrize(
    ("skew_s", "claims", "is_valid"),
    [
        (30, {"exp": NOW_S - 29, "iat": NOW_S - 60}, True),
        (30, {"exp": NOW_S - 30, "iat": NOW_S - 60}, False),
        (0, {"exp": NOW_S + 1}, True),
        (0, {"exp": NOW_S}, False),
        (30, {"nbf": NOW_S + 30}, True),
        (30, {"nbf": NOW_S + 31}, False),
        (0, {"nbf": NOW_S}, True),
        (0, {"nbf": NOW_S + 1}, False),
        (0, {"iat": NOW_S + 60}, True),
        (0, {"iat": NOW_S + 3600, "exp": NOW_S + 7200}, True),
        (0, {"iat": NOW_S + 61}, False),
        (30, {"nbf": NOW_S + 20, "exp": NOW_S + 19}, False),
    ],
)
def test_clocks_may_differ_by_the_skew_as_in_kafka(
    tmp_path: Path, skew_s: int, claims: dict[str, object], is_valid: bool
) -> None:
    """Kafka counts whole seconds, and checks iat only against exp."""
    settings = OAuth(str(keys_file(tmp_path, RSA)), None, (), skew_s, "sub")
    tokens = Tokens("OUTSIDE", settings, lambda: NOW_S + 0.9)
    if is_valid:
        assert tokens.check(signed(**claims))[0] == "alice"
    else:
        refused(tokens, message(signed(**claims)))


def test_the_session_of_a_token_that_only_the_skew_accepts_is_over_at_once(tokens: Tokens) -> None:
    sasl = begun(tokens)
    sasl.on_message(message(signed(exp=NOW_S - 10, iat=NOW_S - 20)), 0)
    assert (sasl.user, sasl.lifetime_ms) == ("alice", 1)


def refused(tokens: Tokens, said: bytes) -> None:
    sasl = begun(tokens)
    assert sasl.on_message(said, 0) == REFUSED
    assert sasl.is_strange
    with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
        sasl.on_message(b"\x01", 0)
    assert (sasl.user, sasl.is_over) == (None, True)


def test_cve_2026_33557_a_token_with_an_unknown_signature_is_refused(tokens: Tokens) -> None:
    stranger = RSAKey.generate_key(2048, {"kid": "r"})
    public = RSA.as_pem(private=False)
    body = signed().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"r"}').rstrip(b"=").decode()
    shared = OctKey.import_key(base64.b64encode(public).decode())
    for token in (
        signed(stranger),
        signed(header={"alg": "RS256", "kid": "another"}),
        signed(header={"alg": "RS256"}),
        f"{none}.{body[1]}.",
        f"{body[0]}.{body[1]}.",
        f"{body[0]}.{signed(sub='admin').split('.')[1]}.{body[2]}",
        str(jwt.encode({"alg": "HS256", "kid": "r"}, CLAIMS, shared, algorithms=["HS256"])),
        "",
        "x",
        "a.b.c",
    ):
        refused(tokens, message(token))


def test_another_authorization_id_is_refused(tokens: Tokens) -> None:
    sasl = begun(tokens)
    with pytest.raises(SaslAuthenticationFailed, match="different from the token's principal name"):
        sasl.on_message(message(signed(), "a=bob"), 0)


@pytest.mark.parametrize(
    "said",
    [b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"y,,\x01auth=Bearer x\x01\x01",
     b"n,,\x01auth=Bearer x\x01", b"n,,\x01auth=Bearer \xff\x01\x01", message("x" * 70_000)],
)
def test_a_malformed_message_is_refused(said: bytes) -> None:
    with pytest.raises(BadMessage):
        read(said)


def test_extensions_are_ignored() -> None:
    assert read(b"n,a=me,\x01traceId=1\x01auth=bearer abc\x01\x01") == ("me", "abc")


@given(some.binary(max_size=60) | some.text("n,a=\x01uth=Bearr.e30", max_size=60).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_authenticates_no_client(tokens: Tokens, said: bytes) -> None:
    for each in (said, message(said.decode("latin-1").encode("ascii", "ignore").decode())):
        sasl = begun(tokens)
        with suppress(SaslAuthenticationFailed):
            sasl.on_message(each, 0)
        assert sasl.user is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"keys": 5}', '{"keys": [{"kty": "RSA"}]}', '{"keys": []}',
     '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'],
)
def test_keys_that_cannot_be_read_stop_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"listener OUTSIDE: {path}: it is not a JWKS with public"):
        Tokens("OUTSIDE", OAuth(str(path), None, (), 0, "sub"))
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        Tokens("OUTSIDE", OAuth(str(path), None, (), 0, "sub"))


def test_keys_are_read_again_when_they_change_and_stay_when_they_are_broken(
    tokens: Tokens, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = RSAKey.generate_key(2048, {"kid": "new"})
    keys_file(tmp_path, new, EC)
    tokens.refresh()
    assert tokens.check(signed(new))[0] == "alice"
    with pytest.raises(BadMessage):
        tokens.check(signed())
    (tmp_path / "keys.json").write_text("broken")
    with caplog.at_level(logging.ERROR):
        tokens.refresh()
    assert "keeps its earlier keys" in caplog.text
    assert tokens.check(signed(new))[0] == "alice"
