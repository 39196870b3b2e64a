"""The client's side of SASL's mechanisms: what it says to a broker, and what it makes of the answers. No I/O.

An exchange is a generator. It yields the bytes to send and is sent the broker's answer. Or it yields a ``Derive`` or
``Away``, which take too long for an event loop, and is sent the result. When it returns, both sides have said what they
have to.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from pyclient.protocol import scram

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (PLAIN, *scram.MECHANISMS, OAUTHBEARER, GSSAPI)
MOST_TOLD: Final = 300
"""Characters of the words of others that an error repeats."""
_SEPARATOR: Final = "\x01"
_EXTENSION: Final = re.compile("[A-Za-z]+=[\x21-\x7e \t\r\n]+")
_TOKEN: Final = re.compile("[A-Za-z0-9._~+/-]+=*")


class SaslError(ValueError):
    """What the broker said is not what the mechanism wants, or the credentials cannot be said in it. The text has no
    secret.
    """


class Derive(NamedTuple):
    """Asks for the salted password: milliseconds of CPU, or a second where a broker wants that."""

    mechanism: scram.Mechanism
    salt: bytes
    iterations: int


class Away(NamedTuple):
    """Asks for what ``run`` returns, which may block."""

    run: Callable[[], bytes]


Exchange = Generator[bytes | Derive | Away, bytes, None]


def plain(username: str, password: str) -> Exchange:
    """PLAIN (RFC 4616): the password as it is. Raises SaslError."""
    if "\0" in username + password:
        raise SaslError("a name or password of PLAIN cannot have a zero byte")
    yield f"\0{username}\0{password}".encode()


def scrammed(
    mechanism: scram.Mechanism, username: str, nonce: str, extensions: Mapping[str, str] | None = None
) -> Exchange:
    """SCRAM: proves that the client knows the password, and has the broker prove that it knows it. Raises SaslError."""
    first = scram.client_first(username, nonce, extensions)
    try:
        challenge = scram.read_server_first((yield first.message))
        salted = yield Derive(mechanism, challenge.salt, challenge.iterations)
        final = scram.client_final(first, challenge, mechanism, salted)
        answer = scram.read_server_final((yield final.message))
    except scram.ScramError as error:
        raise SaslError(str(error)) from None
    if answer.error:
        raise SaslError("the broker refuses the proof")
    known = scram.auth_message(first, challenge, final)
    expected = scram.server_signature(mechanism, scram.server_key(mechanism, salted), known)
    if not hmac.compare_digest(answer.signature, expected):
        raise SaslError("the broker does not prove that it knows the password: it may be another one than it seems")


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """OAUTHBEARER (RFC 7628, KIP-255): a token, and what goes with it. Raises SaslError."""
    if not _TOKEN.fullmatch(token):
        raise SaslError("the token is not one that can be sent: it is empty, or has other characters than base64's")
    pairs = [f"{name}={value}" for name, value in extensions.items()]
    if "auth" in extensions or not all(map(_EXTENSION.fullmatch, pairs)):
        raise SaslError("an extension has letters for its name, and printable ASCII for its value")
    fields = ["n,,", f"auth=Bearer {token}", *pairs, "", ""]
    if refusal := (yield _SEPARATOR.join(fields).encode()):
        yield _SEPARATOR.encode()  # the broker tells by an error code, if it does
        raise SaslError(f"the broker refuses the token: {_status(refusal)}")


def _status(refusal: bytes) -> str:
    """The word of an answer such as ``{"status":"invalid_token"}``."""
    try:
        status = json.loads(refusal)["status"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "it does not say why"
    return status if isinstance(status, str) and _TOKEN.fullmatch(status) else "it does not say why"


def told(text: str) -> str:
    """The words of others, bounded, without what a terminal would obey."""
    return "".join(each if each.isprintable() else " " for each in text[:MOST_TOLD])
