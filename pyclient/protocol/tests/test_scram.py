"""SCRAM with the examples of its RFCs, and with messages that must be refused."""

from __future__ import annotations

import base64
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pyclient.protocol import scram
from pyclient.protocol.scram import Mechanism, ScramError

SHA_1 = Mechanism("SCRAM-SHA-1", "sha1", 20)
RFC_5802 = (
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
CHALLENGE = b"r=theirs-and-ours,s=c2FsdA==,i=4096"
FINAL = b"c=biws,r=theirs-and-ours,p=cHJvb2Y="


@pytest.mark.parametrize(("mechanism", "said"), [(SHA_1, RFC_5802), (scram.SHA_256, RFC_7677)])
def test_client_and_server_reproduce_the_example_of_the_rfc(mechanism: Mechanism, said: tuple[bytes, ...]) -> None:
    first = scram.client_first("user", said[0].rpartition(b"=")[2].decode())
    challenge = scram.read_server_first(said[1])
    salted = scram.salted_password(mechanism, "pencil", challenge.salt, challenge.iterations)
    final = scram.client_final(first, challenge, mechanism, salted)
    assert (first.message, final.message) == (said[0], said[2])

    known = scram.credential(mechanism, salted, challenge.salt, challenge.iterations)
    heard, proof = scram.read_client_first(said[0]), scram.read_client_final(said[2])
    asked = scram.server_first(challenge.nonce, known.salt, known.iterations)
    message = scram.auth_message(heard, asked, proof)
    assert asked.message == said[1]
    assert scram.is_proved(mechanism, known.stored_key, message, proof.proof)
    signature = scram.server_signature(mechanism, known.server_key, message)
    assert scram.ServerFinal(signature).message == said[3]
    assert scram.read_server_final(said[3]).signature == signature


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=str)
def test_a_proof_with_a_wrong_password_or_size_is_rejected(mechanism: Mechanism) -> None:
    salted = scram.salted_password(mechanism, "right", b"salt", 1)
    known = scram.credential(mechanism, salted, b"salt", 1)
    right = scram.client_proof(mechanism, salted, b"all")
    wrong = scram.client_proof(mechanism, scram.salted_password(mechanism, "wrong", b"salt", 1), b"all")
    proved = [scram.is_proved(mechanism, known.stored_key, b"all", each) for each in (right, wrong, right[:-1], b"")]
    assert proved == [True, False, False, False]


@pytest.mark.parametrize("name", ["alice", "a=b,c", "=2C", "ü,=é", "=3D2C"])
def test_an_escaped_user_name_is_decoded(name: str) -> None:
    assert scram.unescaped(scram.escaped(name)) == name
    first = scram.client_first(name, "nonce", {"tokenauth": "true"})
    assert scram.read_client_first(first.message) == first


def test_the_authorization_id_is_read() -> None:
    first = scram.read_client_first(b"n,a=b=2Cc,n=alice,r=x")
    assert (first.authorization_id, first.user, first.bare) == ("b,c", "alice", "n=alice,r=x")
    assert first.message == b"n,a=b=2Cc,n=alice,r=x"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,",
        b"n,,",
        b"n,,n=alice",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=\xc3\xbc",
        b"n,,n=\xff,r=x",
        b"n,,n=a\0b,r=x",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,alice,n=alice,r=x",
        b"n,,m=must,n=alice,r=x",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,tokenauth",
        b"n,,n=" + b"a" * scram.MOST_BYTES + b",r=x",
    ],
)
def test_an_invalid_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        scram.read_client_first(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"r=x",
        b"r=x,s=c2FsdA==",
        b"r=x,s=,i=4096",
        b"r=x,s=*,i=4096",
        b"r=x,s=c2FsdA==,i=4095",
        b"r=x,s=c2FsdA==,i=-4096",
        b"r=x,s=c2FsdA==,i=4096.0",
        b"r=x,s=c2FsdA==,i=1000001",
        b"r=x,s=c2FsdA==,i=" + b"9" * 5000,
        b"m=must,r=x,s=c2FsdA==,i=4096",
        b"e=other-error",
    ],
)
def test_an_invalid_challenge_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        scram.read_server_first(message)


def test_a_caller_may_set_another_limit_for_iterations() -> None:
    assert scram.read_server_first(CHALLENGE, 4096).iterations == 4096
    with pytest.raises(ScramError, match="4096 to 8192"):
        scram.read_server_first(b"r=x,s=c2FsdA==,i=8193", 8192)


@pytest.mark.parametrize("nonce", ["mine", "other-and-more"])
def test_a_challenge_for_another_client_gets_no_proof(nonce: str) -> None:
    challenge = scram.server_first(nonce, b"salt", 4096)
    with pytest.raises(ScramError, match="nonce"):
        scram.client_final(scram.client_first("alice", "mine"), challenge, scram.SHA_256, b"salted")


@pytest.mark.parametrize("message", [b"", b"c=biws,p=x", b"c=biws,r=x", b"c=biws,r=x,p=*", b"r=x,c=biws,p=cA=="])
def test_an_invalid_final_message_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        scram.read_client_final(message)


def test_an_error_in_the_final_message_of_the_broker_is_raised() -> None:
    assert scram.read_server_final(b"e=invalid-proof").error == "invalid-proof"
    assert scram.read_server_final(b"e=").error == "refused"
    assert scram.ServerFinal(error="invalid-proof").message == b"e=invalid-proof"
    with pytest.raises(ScramError, match="refused"):
        scram.read_server_first(b"e=")


def test_an_error_quotes_nothing_of_the_message() -> None:
    """Errors go to logs, and a mistyped message may contain a password anywhere."""
    for message in (b"n,,n=hunter2=,r=x", b"n,hunter2,n=a,r=x", b"n,,n=a,r=x,hunter2"):
        with pytest.raises(ScramError) as caught:
            scram.read_client_first(message)
        assert "hunter2" not in str(caught.value)


def test_repr_of_a_credential_hides_its_keys() -> None:
    shown = repr(scram.credential(scram.SHA_256, b"salted", b"salt", 4096))
    assert "stored_key" not in shown


@given(some.binary(max_size=200) | some.text(alphabet="nyp=,raicve2CD3d+/ü\0", max_size=80).map(str.encode))
def test_garbage_raises_only_scram_error(data: bytes) -> None:
    for read in (
        scram.read_client_first,
        scram.read_server_first,
        scram.read_client_final,
        scram.read_server_final,
    ):
        with suppress(ScramError):
            read(data)


@given(some.text(max_size=50).filter(lambda name: name and "\0" not in name))
def test_every_user_name_survives_encoding_and_decoding(name: str) -> None:
    if not name.isascii() and any(0xD800 <= ord(each) < 0xE000 for each in name):
        return
    assert scram.read_client_first(scram.client_first(name, "x").message).user == name


@given(some.binary(min_size=1, max_size=64), some.integers(4096, scram.MOST_ITERATIONS))
def test_every_challenge_survives_encoding_and_decoding(salt: bytes, iterations: int) -> None:
    asked = scram.server_first("nonce", salt, iterations)
    assert scram.read_server_first(asked.message) == asked
    assert base64.b64encode(salt) in asked.message


def test_a_salt_has_the_same_form_as_kafkas() -> None:
    made = scram.salt_of(bytes(range(200, 256)))
    assert len(made) == scram.SALT_BYTES
    assert re.fullmatch(rb"[0-9a-z]+", made)
    assert made != scram.salt_of(bytes(range(1, 57)))
