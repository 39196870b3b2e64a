"""SCRAM (RFC 5802, RFC 7677) as Kafka speaks it: messages, keys and proofs. Client and broker share it.

    client  n,,n=user,r=nonce                      ->
            <-  r=nonce and more,s=salt,i=iterations
    client  c=biws,r=nonce and more,p=proof        ->
            <-  v=signature, or e=reason

Neither side ever says the password. The client proves that it knows it, and the broker that it knows the user's keys.
As in Kafka, there is no channel binding, and names and passwords are taken as they are, without SASLprep.

Pure: random bytes are an argument. What was read is bounded, but whether a nonce, a proof or a signature is the right
one is for the caller to compare (``hmac.compare_digest``).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1_000_000
"""A broker that asks a client for more is refused: they would cost a second of CPU and more."""
MOST_BYTES: Final = 16 * 1024
"""A longer message is refused before it is looked at."""
SALT_BYTES: Final = 26
"""Of Kafka's own salts, in most cases."""
TOKENAUTH: Final = "tokenauth"
"""The extension of a client that logs in with a delegation token (KIP-48)."""
_SALT_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_NO_BINDING: Final = "n,"
_WRONG_ESCAPE: Final = re.compile("=(?!2C|3D)")
_EXTENSION: Final = re.compile("[A-Za-z]+=[^\0]+")
_NUMBER: Final = re.compile("[0-9]{1,9}")
_PRINTABLE: Final = re.compile("[\x21-\x7e]+")


class ScramError(ValueError):
    """A message that is none of SCRAM, or asks for what is not done. Its text has nothing of the message."""


class Mechanism(NamedTuple):
    """One of the two that Kafka knows."""

    name: str
    hash: str
    size: int
    """Bytes of a key, a proof and a signature."""


SHA_256: Final = Mechanism("SCRAM-SHA-256", "sha256", 32)
SHA_512: Final = Mechanism("SCRAM-SHA-512", "sha512", 64)
MECHANISMS: Final[Mapping[str, Mechanism]] = {each.name: each for each in (SHA_256, SHA_512)}


# -- keys and proofs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """What a broker keeps of a user's password. As secret as a password: it lets its owner play the broker."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The key from which all others are derived. 4096 iterations take a millisecond: too long for an event loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """What to keep of a salted password."""
    return Credential(salt, stored_key(mechanism, salted), server_key(mechanism, salted), iterations)


def salt_of(random: bytes) -> bytes:
    """A salt as Kafka's tools make it, of ``SALT_BYTES`` random bytes or more. One shape for all, so that the salt of a
    user who is not there tells nothing.
    """
    return bytes(_SALT_LETTERS[each % len(_SALT_LETTERS)] for each in random[:SALT_BYTES])


def stored_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """By which a broker checks a client's proof."""
    return hashlib.new(mechanism.hash, _client_key(mechanism, salted)).digest()


def server_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """By which a broker proves that it knows the user."""
    return hmac.digest(salted, b"Server Key", mechanism.hash)


def auth_message(first: ClientFirst, challenge: ServerFirst, final: ClientFinal) -> bytes:
    """All that both sides have said, which proofs and signatures are over."""
    return f"{first.bare},{challenge.text},{final.without_proof}".encode()


def client_proof(mechanism: Mechanism, salted: bytes, message: bytes) -> bytes:
    """That the client knows the password; ``message``: ``auth_message``."""
    key = hmac.digest(stored_key(mechanism, salted), message, mechanism.hash)
    return _xor(_client_key(mechanism, salted), key)


def is_proved(mechanism: Mechanism, stored: bytes, message: bytes, proof: bytes) -> bool:
    """Whether a client's proof fits the stored key. It takes as long whatever the proof is."""
    if len(proof) != mechanism.size:
        return False
    key = _xor(proof, hmac.digest(stored, message, mechanism.hash))
    return hmac.compare_digest(hashlib.new(mechanism.hash, key).digest(), stored)


def server_signature(mechanism: Mechanism, key: bytes, message: bytes) -> bytes:
    """That the broker knows the user; ``key``: ``server_key``."""
    return hmac.digest(key, message, mechanism.hash)


def _client_key(mechanism: Mechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.hash)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# -- messages ------------------------------------------------------------------------------------------------------


class ClientFirst(NamedTuple):
    """The first message, which names the client."""

    user: str
    nonce: str
    bare: str
    """The message without its header, as it was said."""
    authorization_id: str = ""
    extensions: Mapping[str, str] = {}

    @property
    def message(self) -> bytes:
        """What is sent."""
        identity = f"a={escaped(self.authorization_id)}" if self.authorization_id else ""
        return f"{_NO_BINDING}{identity},{self.bare}".encode()


class ServerFirst(NamedTuple):
    """The challenge."""

    nonce: str
    """The client's and more."""
    salt: bytes
    iterations: int
    text: str
    """The message as it was said."""

    @property
    def message(self) -> bytes:
        """What is sent."""
        return self.text.encode()


class ClientFinal(NamedTuple):
    """The proof."""

    nonce: str
    proof: bytes
    without_proof: str
    """The message before its proof, as it was said."""
    binding: bytes = b"n,,"
    """The header of the first message."""

    @property
    def message(self) -> bytes:
        """What is sent."""
        return f"{self.without_proof},p={_encoded(self.proof)}".encode()


class ServerFinal(NamedTuple):
    """The broker's signature, or why there is none."""

    signature: bytes = b""
    error: str = ""

    @property
    def message(self) -> bytes:
        """What is sent."""
        return f"e={self.error}".encode() if self.error else f"v={_encoded(self.signature)}".encode()


def client_first(user: str, nonce: str, extensions: Mapping[str, str] | None = None) -> ClientFirst:
    """The client's first message; ``nonce``: printable ASCII without a comma."""
    more = "".join(f",{name}={value}" for name, value in (extensions or {}).items())
    return ClientFirst(user, nonce, f"n={escaped(user)},r={nonce}{more}", "", extensions or {})


def server_first(nonce: str, salt: bytes, iterations: int) -> ServerFirst:
    """The broker's challenge; ``nonce``: the client's, and the broker's own behind it."""
    return ServerFirst(nonce, salt, iterations, f"r={nonce},s={_encoded(salt)},i={iterations}")


def client_final(first: ClientFirst, challenge: ServerFirst, mechanism: Mechanism, salted: bytes) -> ClientFinal:
    """The client's proof. Raises ScramError where the challenge is not for ``first``."""
    if not challenge.nonce.startswith(first.nonce) or challenge.nonce == first.nonce:
        raise ScramError("the broker's nonce does not continue the client's")
    binding = first.message[: len(first.message) - len(first.bare.encode())]
    final = ClientFinal(challenge.nonce, b"", f"c={_encoded(binding)},r={challenge.nonce}", binding)
    return final._replace(proof=client_proof(mechanism, salted, auth_message(first, challenge, final)))


def read_client_first(data: bytes) -> ClientFirst:
    """A client's first message. Raises ScramError."""
    flag, *fields = _fields(data)
    if flag != "n":
        raise ScramError("channel binding is not supported")
    if len(fields) < 3:
        raise ScramError("the first message is not whole")
    identity, *fields = fields
    user = unescaped(_value("n", fields[0]))
    if not user:
        raise ScramError("no name of a user")
    authorization_id = unescaped(_value("a", identity)) if identity else ""
    return ClientFirst(user, _nonce(fields[1]), ",".join(fields), authorization_id, _extensions(fields[2:]))


def read_server_first(data: bytes, most_iterations: int = MOST_ITERATIONS) -> ServerFirst:
    """A broker's challenge. Raises ScramError, also for too few or too many iterations."""
    fields = _fields(data)
    if len(fields) < 3:
        raise ScramError(_refusal(fields[0]) or "the challenge is not whole")
    nonce, salt, number = _nonce(fields[0]), _decoded(_value("s", fields[1])), _value("i", fields[2])
    _extensions(fields[3:])
    if not salt:
        raise ScramError("the challenge has no salt")
    if not _NUMBER.fullmatch(number) or not LEAST_ITERATIONS <= int(number) <= most_iterations:
        raise ScramError(f"iterations must be {LEAST_ITERATIONS} to {most_iterations}")
    return ServerFirst(nonce, salt, int(number), data.decode())


def read_client_final(data: bytes) -> ClientFinal:
    """A client's proof. Raises ScramError."""
    *fields, proof = _fields(data)
    if len(fields) < 2:
        raise ScramError("the last message is not whole")
    binding, nonce = _decoded(_value("c", fields[0])), _nonce(fields[1])
    _extensions(fields[2:])
    return ClientFinal(nonce, _decoded(_value("p", proof)), ",".join(fields), binding)


def read_server_final(data: bytes) -> ServerFinal:
    """A broker's last message. Raises ScramError."""
    first, *rest = _fields(data)
    _extensions(rest)
    if error := _refusal(first):
        return ServerFinal(error=error)
    return ServerFinal(_decoded(_value("v", first)))


def escaped(name: str) -> str:
    """The name of a user as a message has it (saslname)."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """The name of a user in a message. Raises ScramError."""
    if _WRONG_ESCAPE.search(name):
        raise ScramError("a name has = without 2C or 3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def _fields(data: bytes) -> list[str]:
    """What lies between commas, one at least. Raises ScramError."""
    if len(data) > MOST_BYTES:
        raise ScramError(f"a message has more than {MOST_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ScramError("a message is not UTF-8") from None
    if "\0" in text:
        raise ScramError("a message has a zero byte")
    return text.split(",")


def _value(name: str, field: str) -> str:
    if not field.startswith(f"{name}="):
        raise ScramError(f"a message lacks the field {name}=")
    return field[len(name) + 1 :]


def _refusal(field: str) -> str:
    """The reason of a broker that ends it; empty where it does not."""
    return field.removeprefix("e=") or "refused" if field.startswith("e=") else ""


def _nonce(field: str) -> str:
    nonce = _value("r", field)
    if not _PRINTABLE.fullmatch(nonce):
        raise ScramError("a nonce must be printable")
    return nonce


def _extensions(fields: list[str]) -> dict[str, str]:
    if any(not _EXTENSION.fullmatch(field) for field in fields):
        raise ScramError("what follows is no extension")
    pairs = (field.partition("=") for field in fields)
    return {name: value for name, _, value in pairs}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("a value is not base64") from None
