"""The client's side of SASL mechanisms: the messages to a broker, and the checks of its answers. No I/O.

An exchange is a generator. It yields the bytes to send, and receives the broker's answer. It may also yield a
``Derive`` or ``Away``, which take too long for an event loop, and receives their result. When it returns, the exchange
is complete.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Final, NamedTuple

from pyclient.protocol import scram

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (PLAIN, *scram.MECHANISMS, OAUTHBEARER, GSSAPI)
MOST_TOLD: Final = 300
"""The most characters of a peer's text that an error repeats."""
LEAST_S = 1.0
"""Seconds between two authentications of a connection, however short its sessions are: Kafka allows one a second."""
EARLY, LATE = 0.85, 0.95
"""The part of a session after which a connection authenticates again, as in Java's client."""
_SEPARATOR: Final = "\x01"
_EXTENSION: Final = re.compile("[A-Za-z]+=[\x21-\x7e \t\r\n]+")
_TOKEN: Final = re.compile("[A-Za-z0-9._~+/-]+=*")


class SaslError(ValueError):
    """The broker's message does not fit the mechanism, or the credentials cannot be sent by it. The text contains no
    secret.
    """


class Derive(NamedTuple):
    """Requests the salted password: milliseconds of CPU, or a second if the broker demands many iterations."""

    mechanism: scram.Mechanism
    salt: bytes
    iterations: int


class Away(NamedTuple):
    """Requests the result of ``run``, which may block."""

    run: Callable[[], bytes]


Exchange = Generator[bytes | Derive | Away, bytes, None]


async def conduct(
    exchange: Exchange,
    say: Callable[[bytes], Awaitable[bytes]],
    work: Callable[[Derive | Away], Awaitable[bytes]],
) -> None:
    """Conducts an exchange to its end. ``say`` sends a message and returns the answer; ``work`` does the slow parts.
    Raises the errors of both, and of the exchange.
    """
    try:
        step = next(exchange)
        while True:
            step = exchange.send(await say(step) if isinstance(step, bytes) else await work(step))
    except StopIteration:
        return


def renewal_in(lifetime: float, random: Callable[[], float]) -> float:
    """Returns the seconds after which to authenticate again, for a session of ``lifetime`` seconds."""
    return max(LEAST_S, lifetime * (EARLY + (LATE - EARLY) * random()))


def plain(username: str, password: str) -> Exchange:
    """PLAIN (RFC 4616): the password in plain text. Raises SaslError."""
    if "\0" in username + password:
        raise SaslError("a name or password of PLAIN cannot have a zero byte")
    yield f"\0{username}\0{password}".encode()


def scrammed(
    mechanism: scram.Mechanism, username: str, nonce: str, extensions: Mapping[str, str] | None = None
) -> Exchange:
    """SCRAM: client and broker prove to each other that they know the password. Raises SaslError."""
    first = scram.client_first(username, nonce, extensions)
    try:
        challenge = scram.read_server_first((yield first.message))
        salted = yield Derive(mechanism, challenge.salt, challenge.iterations)
        final = scram.client_final(first, challenge, mechanism, salted)
        answer = scram.read_server_final((yield final.message))
    except scram.ScramError as error:
        raise SaslError(str(error)) from None
    if answer.error:
        raise SaslError("the broker rejects the proof")
    known = scram.auth_message(first, challenge, final)
    expected = scram.server_signature(mechanism, scram.server_key(mechanism, salted), known)
    if not hmac.compare_digest(answer.signature, expected):
        raise SaslError("the broker does not prove that it knows the password: it may be an impostor")


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """OAUTHBEARER (RFC 7628, KIP-255): a token and its extensions. Raises SaslError."""
    if not _TOKEN.fullmatch(token):
        raise SaslError("the token cannot be sent: it is empty, or has characters that are not base64's")
    pairs = [f"{name}={value}" for name, value in extensions.items()]
    if "auth" in extensions or not all(map(_EXTENSION.fullmatch, pairs)):
        raise SaslError("the name of an extension must consist of letters, and its value of printable ASCII")
    fields = ["n,,", f"auth=Bearer {token}", *pairs, "", ""]
    if refusal := (yield _SEPARATOR.join(fields).encode()):
        yield _SEPARATOR.encode()  # after this the broker sends an error code, or closes
        raise SaslError(f"the broker rejects the token: {_status(refusal)}")


def _status(refusal: bytes) -> str:
    """Returns the status of an answer such as ``{"status":"invalid_token"}``."""
    try:
        status = json.loads(refusal)["status"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "it gives no reason"
    return status if isinstance(status, str) and _TOKEN.fullmatch(status) else "it gives no reason"


def told(text: str) -> str:
    """Returns a peer's text, shortened, and without control characters."""
    return "".join(each if each.isprintable() else " " for each in text[:MOST_TOLD])
