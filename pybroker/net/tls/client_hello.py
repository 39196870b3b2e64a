"""Inspects the first message of a TLS client before OpenSSL gets it.

A key exchange over a large finite field costs the client nothing. The handshake thread works a hundred times as long on
it as on one over an elliptic curve. Unreadable messages need no check here: OpenSSL refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

RECORD: Final = 0x16
"""The type of handshake records."""
_RECORD_HEADER: Final = 5
_MOST_IN_RECORD: Final = (1 << 14) + 256
_MESSAGE_HEADER: Final = 4
_CLIENT_HELLO: Final = 1
_BEFORE_SESSION: Final = 2 + 32
"""How many bytes come before the session: a version and random bytes."""
_GROUPS, _KEY_SHARE = 10, 51
_FINITE_FIELDS: Final = range(0x0100, 0x0200)
_CURVES: Final = frozenset((0x17, 0x18, 0x19, 0x1D, 0x1E))
"""P-256, P-384, P-521, X25519, X448."""


class HelloReader:
    """Takes bytes until they are a whole ClientHello, or cannot become one."""

    __slots__ = ("_at", "_message", "received")

    def __init__(self) -> None:
        self.received = bytearray()
        """All bytes, for OpenSSL."""
        self._message = bytearray()
        self._at = 0

    def add(self, data: memoryview) -> bool:
        """Adds bytes. Returns True if it needs no further bytes."""
        self.received += data
        while len(self.received) >= self._at + _RECORD_HEADER:
            body = self._at + _RECORD_HEADER
            size = int.from_bytes(self.received[body - 2 : body], "big")
            if size > _MOST_IN_RECORD:
                return True
            if len(self.received) < body + size:
                return False
            if self.received[self._at] == RECORD:
                self._message += self.received[body : body + size]
            self._at = body + size
            if self._is_decided():
                return True
        return False

    def _is_decided(self) -> bool:
        if self._message and self._message[0] != _CLIENT_HELLO:
            return True
        return len(self._message) >= _MESSAGE_HEADER and len(self._message) >= self._end()

    def _end(self) -> int:
        return _MESSAGE_HEADER + int.from_bytes(self._message[1:_MESSAGE_HEADER], "big")

    def asks_for_finite_field(self) -> bool:
        """Returns whether the client sends a key over a finite field, or offers only finite fields."""
        if not self._message or self._message[0] != _CLIENT_HELLO:
            return False
        offered: set[int] = set()
        for kind, value in _extensions(bytes(self._message[_MESSAGE_HEADER : self._end()])):
            if kind == _KEY_SHARE and any(group in _FINITE_FIELDS for group in _shares(value)):
                return True
            if kind == _GROUPS:
                offered.update(int.from_bytes(value[at : at + 2], "big") for at in range(2, len(value) - 1, 2))
        return any(group in _FINITE_FIELDS for group in offered) and not offered & _CURVES


def _extensions(hello: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields type and value of each complete extension."""
    at = _BEFORE_SESSION
    for width in (1, 2, 1):  # the session, cipher suites, compression methods
        at += width + int.from_bytes(hello[at : at + width], "big")
    at += 2
    while at + 4 <= len(hello):
        kind, size = int.from_bytes(hello[at : at + 2], "big"), int.from_bytes(hello[at + 2 : at + 4], "big")
        yield kind, hello[at + 4 : at + 4 + size]
        at += 4 + size


def _shares(value: bytes) -> Iterator[int]:
    """Yields the group of each key that the client sends."""
    at = 2
    while at + 4 <= len(value):
        yield int.from_bytes(value[at : at + 2], "big")
        at += 4 + int.from_bytes(value[at + 2 : at + 4], "big")
