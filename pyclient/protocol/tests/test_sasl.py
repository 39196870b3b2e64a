"""The client's messages in each mechanism, with the examples of the RFCs and with brokers that lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pyclient.protocol import sasl, scram
from pyclient.protocol.sasl import Derive, SaslError, oauthbearer, plain, scrammed

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SIGNED = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def derived(step: Derive, password: str = "pencil") -> bytes:
    return scram.salted_password(step.mechanism, password, step.salt, step.iterations)


def ended(exchange, answer):
    """Returns the error of the exchange; None if it succeeded."""
    try:
        exchange.send(answer)
    except StopIteration:
        return None
    except SaslError as error:
        return str(error)
    raise AssertionError("it goes on")


def proved(challenge=CHALLENGE):
    """Returns an exchange that has sent its proof, and the proof."""
    exchange = scrammed(scram.SHA_256, "user", NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return exchange, exchange.send(derived(exchange.send(challenge)))


def test_plain_sends_user_name_and_password():
    exchange = plain("tim", "tanstaaftanstaaf")
    assert next(exchange) == b"\0tim\0tanstaaftanstaaf"
    assert ended(exchange, b"") is None


def test_scram_reproduces_the_exchange_of_its_rfc():
    exchange, proof = proved()
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert ended(exchange, SIGNED) is None


@pytest.mark.parametrize("answer", [b"v=" + SIGNED[2:].swapcase(), b"v=", b"v=AAAA"])
def test_a_broker_that_does_not_know_the_password_is_refused(answer):
    assert "does not prove that it knows the password" in ended(proved()[0], answer)


@pytest.mark.parametrize("answer", [b"", b"e=other-error", b"x=1", b"\xff", b"v=!"])
def test_a_broker_that_ends_without_its_signature_is_refused(answer):
    assert ended(proved()[0], answer)


@pytest.mark.parametrize(
    ("challenge", "told"),
    [
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "iterations must be 4096 to 1000000"),
        (CHALLENGE.replace(b"i=4096", b"i=1000001"), "iterations must be 4096 to 1000000"),
        (CHALLENGE.replace(b"i=4096", b"i=99999999999999999999"), "iterations must be"),
        (b"", "incomplete"),
        (b"e=unknown-user", "unknown-user"),
        (b"r=" + b"x" * scram.MOST_BYTES, "more than"),
    ],
)
def test_an_unacceptable_challenge_is_refused_before_any_hashing(challenge, told):
    exchange = scrammed(scram.SHA_256, "user", NONCE)
    next(exchange)
    with pytest.raises(SaslError, match=told):
        exchange.send(challenge)


@pytest.mark.parametrize("nonce", [NONCE, f"s{NONCE}", "s"])
def test_a_nonce_that_does_not_continue_the_clients_is_refused(nonce):
    exchange = scrammed(scram.SHA_256, "user", NONCE)
    next(exchange)
    step = exchange.send(f"r={nonce},s=W22Z,i=4096".encode())
    with pytest.raises(SaslError, match="nonce does not continue"):
        exchange.send(derived(step))


def test_scram_marks_a_login_by_delegation_token():
    assert next(scrammed(scram.SHA_512, "id", "n", {"tokenauth": "true"})) == b"n,,n=id,r=n,tokenauth=true"


def test_oauthbearer_sends_its_token_and_extensions():
    exchange = oauthbearer("a.b.c", {"tenant": "x y"})
    assert next(exchange) == b"n,,\x01auth=Bearer a.b.c\x01tenant=x y\x01\x01"
    assert ended(exchange, b"") is None
    assert next(oauthbearer("t", {})) == b"n,,\x01auth=Bearer t\x01\x01"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"status":"invalid_token"}', "rejects the token: invalid_token"),
        (b'{"status":"a\\nb"}', "gives no reason"),
        (b"[" * 10_000, "gives no reason"),
        (b"\xff", "gives no reason"),
    ],
)
def test_a_refused_token_is_an_error_after_the_last_message_of_the_broker(answer, told):
    exchange = oauthbearer("t", {})
    next(exchange)
    assert exchange.send(answer) == b"\x01"
    assert told in ended(exchange, b"")


SAID = some.sampled_from([CHALLENGE, SIGNED, b"", b"r=" + b"x" * 99])
ANSWERS = some.lists(some.binary(max_size=60) | SAID, max_size=4)


@given(ANSWERS)
def test_no_answer_of_a_broker_raises_anything_but_sasl_error(answers):
    for exchange in (plain("a", "b"), scrammed(scram.SHA_256, "user", NONCE), oauthbearer("t", {})):
        step, left = next(exchange), iter(answers)
        try:
            while True:
                step = exchange.send(derived(step) if isinstance(step, Derive) else next(left, b""))
        except (StopIteration, SaslError):
            pass


@pytest.mark.parametrize(
    "begin",
    [
        lambda: plain("a", "hush\0"),
        lambda: oauthbearer("hush\x01", {}),
        lambda: oauthbearer("", {}),
        lambda: oauthbearer("t", {"auth": "hush"}),
        lambda: oauthbearer("t", {"a b": "hush"}),
        lambda: oauthbearer("t", {"a": "hush\x01b=c"}),
    ],
)
def test_an_error_about_unsendable_credentials_hides_the_secret(begin):
    with pytest.raises(SaslError) as caught:
        next(begin())
    assert "hush" not in str(caught.value)


def test_the_mechanisms_are_those_of_kafka_that_need_no_library():
    assert sasl.MECHANISMS == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
