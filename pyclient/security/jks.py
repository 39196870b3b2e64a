"""Reads Java's own key store format, JKS.

    store := int32 0xFEEDFEED, int32 version (1, 2), int32 count, entry[count], byte[20] SHA-1
    entry := int32 1, utf alias, int64 date, blob EncryptedPrivateKeyInfo, int32 count, certificate[count]
           | int32 2, utf alias, int64 date, certificate
    certificate := [utf type, from version 2] blob
    utf := uint16 byte[uint16];  blob := int32 byte[int32]

The SHA-1 is of the password in UTF-16, ``Mighty Aphrodite`` and all bytes before it. A key is hidden by a stream of
SHA-1s that begins with the password and a salt, so only the file's mode protects it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from pyclient.security.trouble import BadStore, WrongPassword

MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST: Final = 20
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_VERSIONS: Final = (1, 2)
_HIDDEN_BY_SUN: Final = bytes.fromhex("2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1, by which Sun's keytool marks its encrypted keys."""
_SEQUENCE, _OBJECT_ID, _OCTETS = 0x30, 0x06, 0x04
_LONG: Final = 0x80
"""A flag: the length has several bytes."""


class KeyEntry(NamedTuple):
    """A private key, still hidden, and its certificates in DER, the key's own first."""

    hidden: bytes
    chain: tuple[bytes, ...]


class Jks(NamedTuple):
    """The contents of a JKS store."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]
    """The trusted certificates, in DER."""


def read(data: bytes, password: str | None) -> Jks:
    """Returns the entries. Without a password, it does not check whether they were changed. Raises BadStore."""
    if password is not None:
        seen = hashlib.sha1(_utf16(password) + _WHITENER + data[:-_DIGEST], usedforsecurity=False).digest()
        if not hmac.compare_digest(seen, data[-_DIGEST:]):
            raise WrongPassword("the password does not open it, or the file is damaged")
    cursor = _Cursor(data[: -_DIGEST or None])
    cursor.take(len(MAGIC))
    version = cursor.number(4)
    if version not in _VERSIONS:
        raise BadStore(f"JKS version {version} is unknown")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(cursor.number(4)):
        tag = cursor.number(4)
        cursor.take(cursor.number(2))  # the alias
        cursor.take(8)  # the date
        if tag == _KEY_ENTRY:
            hidden = cursor.take(cursor.number(4))
            chain = [_certificate(cursor, version) for _ in range(cursor.number(4))]
            keys.append(KeyEntry(hidden, tuple(chain)))
        elif tag == _CERTIFICATE_ENTRY:
            trusted.append(_certificate(cursor, version))
        else:
            raise BadStore(f"a JKS entry has the unknown kind {tag}")
    return Jks(tuple(keys), tuple(trusted))


def reveal(hidden: bytes, password: str) -> bytes:
    """Returns the key, PKCS#8 in DER. Raises BadStore."""
    info = _Cursor(_value(_Cursor(hidden), _SEQUENCE))
    if _value(_Cursor(_value(info, _SEQUENCE)), _OBJECT_ID) != _HIDDEN_BY_SUN:
        raise BadStore("its key is encrypted in a way that JKS does not define")
    octets = _value(info, _OCTETS)
    salt, body, check = octets[:_DIGEST], octets[_DIGEST:-_DIGEST], octets[-_DIGEST:]
    secret, stream, last = _utf16(password), b"", salt
    while len(stream) < len(body):
        last = hashlib.sha1(secret + last, usedforsecurity=False).digest()
        stream += last
    size = len(body)
    key = (int.from_bytes(body, "big") ^ int.from_bytes(stream[:size], "big")).to_bytes(size, "big")
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise WrongPassword("the password does not open its key")
    return key


def _certificate(cursor: _Cursor, version: int) -> bytes:
    if version > 1:
        cursor.take(cursor.number(2))  # X.509
    return cursor.take(cursor.number(4))


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Cursor:
    """Reads bytes in sequence. Raises BadStore at their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise BadStore("it is truncated")
        taken, self._at = self._data[self._at : end], end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")


def _value(cursor: _Cursor, tag: int) -> bytes:
    """Returns the next DER value, which must have that tag."""
    if cursor.number(1) != tag:
        raise BadStore("its key is not a JKS key")
    size = cursor.number(1)
    if size & _LONG:
        size = cursor.number(size ^ _LONG)
    return cursor.take(size)
