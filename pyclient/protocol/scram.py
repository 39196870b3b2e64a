"""SCRAM (RFC 5802, RFC 7677) in Kafka's form: messages, keys and proofs. Client and broker share it.

    client  n,,n=user,r=nonce                      ->
            <-  r=nonce and more,s=salt,i=iterations
    client  c=biws,r=nonce and more,p=proof        ->
            <-  v=signature, or e=reason

Neither side ever sends the password. The client proves that it knows it, and the broker that it knows the user's keys.
As in Kafka, there is no channel binding, and names and passwords are used unchanged, without SASLprep.

Pure: random bytes are an argument. The size of what is read is limited, but the caller must compare nonces, proofs and
signatures (``hmac.compare_digest``).
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
"""A client rejects a broker that demands more: it would cost more than a second of CPU."""
MOST_BYTES: Final = 16 * 1024
"""A longer message is rejected unread."""
SALT_BYTES: Final = 26
"""The length of Kafka's own salts, in most cases."""
TOKENAUTH: Final = "tokenauth"
"""The extension of a client that logs in with a delegation token (KIP-48)."""
_SALT_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_NO_BINDING: Final = "n,"
_WRONG_ESCAPE: Final = re.compile("=(?!2C|3D)")
_EXTENSION: Final = re.compile("[A-Za-z]+=[^\0]+")
_NUMBER: Final = re.compile("[0-9]{1,9}")
_PRINTABLE: Final = re.compile("[\x21-\x7e]+")


class ScramError(ValueError):
    """A message that is not SCRAM, or demands something unsupported. Its text contains nothing of the message."""


class Mechanism(NamedTuple):
    """One of Kafka's two SCRAM mechanisms."""

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
    """What a broker stores of a user's password. As secret as a password: with it, one can impersonate the broker."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Returns the key from which all others are derived. 4096 iterations take a millisecond: too long for an event
    loop.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Returns the credential that a broker stores for a salted password."""
    return Credential(salt, stored_key(mechanism, salted), server_key(mechanism, salted), iterations)


def salt_of(random: bytes) -> bytes:
    """Returns a salt in the form of Kafka's tools, from at least ``SALT_BYTES`` random bytes. All salts have the same
    form, so the salt of an unknown user reveals nothing.
    """
    return bytes(_SALT_LETTERS[each % len(_SALT_LETTERS)] for each in random[:SALT_BYTES])


def stored_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """Returns the key with which a broker checks a client's proof."""
    return hashlib.new(mechanism.hash, _client_key(mechanism, salted)).digest()


def server_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """Returns the key with which a broker proves that it knows the user."""
    return hmac.digest(salted, b"Server Key", mechanism.hash)


def auth_message(first: ClientFirst, challenge: ServerFirst, final: ClientFinal) -> bytes:
    """Returns all that both sides have sent, which is the input of proofs and signatures."""
    return f"{first.bare},{challenge.text},{final.without_proof}".encode()


def client_proof(mechanism: Mechanism, salted: bytes, message: bytes) -> bytes:
    """Returns the proof that the client knows the password, for a message from ``auth_message``."""
    key = hmac.digest(stored_key(mechanism, salted), message, mechanism.hash)
    return _xor(_client_key(mechanism, salted), key)


def is_proved(mechanism: Mechanism, stored: bytes, message: bytes, proof: bytes) -> bool:
    """Returns whether a client's proof fits the stored key, in constant time."""
    if len(proof) != mechanism.size:
        return False
    key = _xor(proof, hmac.digest(stored, message, mechanism.hash))
    return hmac.compare_digest(hashlib.new(mechanism.hash, key).digest(), stored)


def server_signature(mechanism: Mechanism, key: bytes, message: bytes) -> bytes:
    """Returns the proof that the broker knows the user, with a key from ``server_key``."""
    return hmac.digest(key, message, mechanism.hash)


def _client_key(mechanism: Mechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.hash)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# -- messages ------------------------------------------------------------------------------------------------------


class ClientFirst(NamedTuple):
    """The client's first message, which names the user."""

    user: str
    nonce: str
    bare: str
    """The message as it was sent, without the header."""
    authorization_id: str = ""
    extensions: Mapping[str, str] = {}

    @property
    def message(self) -> bytes:
        """The bytes to send."""
        identity = f"a={escaped(self.authorization_id)}" if self.authorization_id else ""
        return f"{_NO_BINDING}{identity},{self.bare}".encode()


class ServerFirst(NamedTuple):
    """The server's first message: the broker's challenge."""

    nonce: str
    """The client's nonce, continued by the broker's."""
    salt: bytes
    iterations: int
    text: str
    """The text of the message, as it was sent."""

    @property
    def message(self) -> bytes:
        """The bytes to send."""
        return self.text.encode()


class ClientFinal(NamedTuple):
    """The client's final message: the proof that it knows the password."""

    nonce: str
    proof: bytes
    without_proof: str
    """The part of the message before the proof, as it was sent."""
    binding: bytes = b"n,,"
    """The header of the first message."""

    @property
    def message(self) -> bytes:
        """The bytes to send."""
        return f"{self.without_proof},p={_encoded(self.proof)}".encode()


class ServerFinal(NamedTuple):
    """The broker's signature, or an error."""

    signature: bytes = b""
    error: str = ""

    @property
    def message(self) -> bytes:
        """The bytes to send."""
        return f"e={self.error}".encode() if self.error else f"v={_encoded(self.signature)}".encode()


def client_first(user: str, nonce: str, extensions: Mapping[str, str] | None = None) -> ClientFirst:
    """Returns the client's first message. ``nonce`` must be printable ASCII without a comma."""
    more = "".join(f",{name}={value}" for name, value in (extensions or {}).items())
    return ClientFirst(user, nonce, f"n={escaped(user)},r={nonce}{more}", "", extensions or {})


def server_first(nonce: str, salt: bytes, iterations: int) -> ServerFirst:
    """Returns the broker's challenge. ``nonce`` is the client's, continued by the broker's."""
    return ServerFirst(nonce, salt, iterations, f"r={nonce},s={_encoded(salt)},i={iterations}")


def client_final(first: ClientFirst, challenge: ServerFirst, mechanism: Mechanism, salted: bytes) -> ClientFinal:
    """Returns the client's proof. Raises ScramError if the challenge is not for ``first``."""
    if not challenge.nonce.startswith(first.nonce) or challenge.nonce == first.nonce:
        raise ScramError("the broker's nonce does not continue the client's")
    binding = first.message[: len(first.message) - len(first.bare.encode())]
    final = ClientFinal(challenge.nonce, b"", f"c={_encoded(binding)},r={challenge.nonce}", binding)
    return final._replace(proof=client_proof(mechanism, salted, auth_message(first, challenge, final)))


def read_client_first(data: bytes) -> ClientFirst:
    """Parses a client's first message. Raises ScramError."""
    flag, *fields = _fields(data)
    if flag != "n":
        raise ScramError("channel binding is not supported")
    if len(fields) < 3:
        raise ScramError("the first message is incomplete")
    identity, *fields = fields
    user = unescaped(_value("n", fields[0]))
    if not user:
        raise ScramError("the first message names no user")
    authorization_id = unescaped(_value("a", identity)) if identity else ""
    return ClientFirst(user, _nonce(fields[1]), ",".join(fields), authorization_id, _extensions(fields[2:]))


def read_server_first(data: bytes, most_iterations: int = MOST_ITERATIONS) -> ServerFirst:
    """Parses a broker's challenge. Raises ScramError, also for too few or too many iterations."""
    fields = _fields(data)
    if len(fields) < 3:
        raise ScramError(_refusal(fields[0]) or "the challenge is incomplete")
    nonce, salt, number = _nonce(fields[0]), _decoded(_value("s", fields[1])), _value("i", fields[2])
    _extensions(fields[3:])
    if not salt:
        raise ScramError("the challenge has no salt")
    if not _NUMBER.fullmatch(number) or not LEAST_ITERATIONS <= int(number) <= most_iterations:
        raise ScramError(f"iterations must be {LEAST_ITERATIONS} to {most_iterations}")
    return ServerFirst(nonce, salt, int(number), data.decode())


def read_client_final(data: bytes) -> ClientFinal:
    """Parses a client's proof. Raises ScramError."""
    *fields, proof = _fields(data)
    if len(fields) < 2:
        raise ScramError("the last message is incomplete")
    binding, nonce = _decoded(_value("c", fields[0])), _nonce(fields[1])
    _extensions(fields[2:])
    return ClientFinal(nonce, _decoded(_value("p", proof)), ",".join(fields), binding)


def read_server_final(data: bytes) -> ServerFinal:
    """Parses a broker's last message. Raises ScramError."""
    first, *rest = _fields(data)
    _extensions(rest)
    if error := _refusal(first):
        return ServerFinal(error=error)
    return ServerFinal(_decoded(_value("v", first)))


def escaped(name: str) -> str:
    """Returns the user name escaped for a message (saslname)."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """Returns the user name from a message. Raises ScramError."""
    if _WRONG_ESCAPE.search(name):
        raise ScramError("a name has = without 2C or 3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def _fields(data: bytes) -> list[str]:
    """Splits a message at commas. Raises ScramError."""
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
    """Returns the broker's error in the field; empty if there is none."""
    return field.removeprefix("e=") or "refused" if field.startswith("e=") else ""


def _nonce(field: str) -> str:
    nonce = _value("r", field)
    if not _PRINTABLE.fullmatch(nonce):
        raise ScramError("a nonce must be printable")
    return nonce


def _extensions(fields: list[str]) -> dict[str, str]:
    if any(not _EXTENSION.fullmatch(field) for field in fields):
        raise ScramError("the text after the proof is not an extension")
    pairs = (field.partition("=") for field in fields)
    return {name: value for name, _, value in pairs}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("a value is not base64") from None
