"""Certificates, and stores of them, for tests."""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

PASSWORD = "store secret ä"
KEY_PASSWORD = "key secret"


class Identity(NamedTuple):
    """A key and its certificates, in PEM; the key also encrypted by KEY_PASSWORD."""

    key: str
    encrypted_key: str
    chain: tuple[str, ...]


class World(NamedTuple):
    """An authority and the identities that it has certified."""

    authority: str
    server: Identity
    client: Identity


@cache
def world() -> World:
    """Returns the same world for all tests of a process, because keys are slow to create."""
    authority = trustme.CA()
    return World(
        authority.cert_pem.bytes().decode(),
        identity(authority.issue_cert("localhost", "127.0.0.1")),
        identity(authority.issue_cert("client@example.org", common_name="client")),
    )


def identity(leaf: trustme.LeafCert) -> Identity:
    """Returns key and chain of a certificate made by trustme."""
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Identity(
        key.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode(),
        key.private_bytes(pem, pkcs8, BestAvailableEncryption(KEY_PASSWORD.encode())).decode(),
        tuple(each.bytes().decode() for each in leaf.cert_chain_pems),
    )


def der(certificate: str) -> bytes:
    """Returns the DER form of a certificate."""
    return ssl.PEM_cert_to_DER_cert(certificate)


def pkcs12_keys(who: Identity, password: str = PASSWORD) -> bytes:
    """Returns a PKCS12 key store."""
    key = serialization.load_pem_private_key(who.key.encode(), None)
    first, *rest = [x509.load_pem_x509_certificate(each.encode()) for each in who.chain]
    return pkcs12.serialize_key_and_certificates(b"me", key, first, rest, BestAvailableEncryption(password.encode()))


def pkcs12_trust(*certificates: str, password: str = PASSWORD) -> bytes:
    """Returns a PKCS12 trust store in Java's format."""
    parsed = [
        pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(each.encode()), b"ca%d" % number)
        for number, each in enumerate(certificates)
    ]
    return pkcs12.serialize_java_truststore(parsed, BestAvailableEncryption(password.encode()))


def jks_store(
    keys: Sequence[Identity] = (),
    trusted: Sequence[str] = (),
    password: str = PASSWORD,
    key_password: str = PASSWORD,
    version: int = 2,
) -> bytes:
    """Returns a JKS store, built according to Java's sources."""
    kind = _utf("X.509") if version > 1 else b""
    data = struct.pack(">III", 0xFEEDFEED, version, len(keys) + len(trusted))
    for number, who in enumerate(keys):
        plain = serialization.load_pem_private_key(who.key.encode(), None).private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        data += struct.pack(">I", 1) + _utf(f"key{number}") + bytes(8) + _blob(_hidden(plain, key_password))
        data += struct.pack(">I", len(who.chain)) + b"".join(kind + _blob(der(each)) for each in who.chain)
    for number, each in enumerate(trusted):
        data += struct.pack(">I", 2) + _utf(f"ca{number}") + bytes(8) + kind + _blob(der(each))
    return data + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()


def _hidden(plain: bytes, password: str) -> bytes:
    secret, last, stream = password.encode("utf-16-be"), (salt := os.urandom(20)), b""
    while len(stream) < len(plain):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    body = bytes(a ^ b for a, b in zip(plain, stream, strict=False))
    octets = salt + body + hashlib.sha1(secret + plain).digest()
    algorithm = _tlv(0x30, bytes.fromhex("060a2b060104012a02110101") + b"\x05\x00")
    return _tlv(0x30, algorithm + _tlv(0x04, octets))


def _tlv(tag: int, value: bytes) -> bytes:
    size = len(value)
    length = bytes([size]) if size < 0x80 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + value


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _blob(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def written(folder: Path, name: str, data: bytes | str) -> str:
    """Writes a file with this content. Returns its name."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)
