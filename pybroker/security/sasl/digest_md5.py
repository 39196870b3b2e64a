"""The client's side of SASL's DIGEST-MD5 (RFC 2831), ZooKeeper's mechanism for passwords: ``qop=auth``, without further
layers.

    challenge  realm="zk-sasl-md5",nonce="…",charset=utf-8,algorithm=md5-sess
    answer     username="kafka",realm="zk-sasl-md5",nonce="…",nc=00000001,cnonce="…",digest-uri="…",response=…,qop=auth
    last       rspauth=…, which proves that the server knows the password too

Pure functions: the client's nonce is an argument.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

_DIRECTIVE: Final = re.compile(rb'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"\s]*))\s*(?:,|\Z)', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_COUNT: Final = b"00000001"
_QOP: Final = b"auth"
_ALGORITHM: Final = b"md5-sess"


class DigestError(Exception):
    """Raised if the server's message is not DIGEST-MD5, or if the server does not know the password."""


class DigestMd5:
    """One login: call ``answer`` with the challenge, then ``check`` with the server's last message."""

    def __init__(self, user: str, password: str, uri: str, nonce: str) -> None:
        """``uri`` is service and host of the server, like ``imap/example.org``; ``nonce`` is random and printable."""
        self._user = user
        self._password = password
        self._uri = uri.encode()
        self._nonce = nonce.encode()
        self._expected = b""

    def answer(self, challenge: bytes) -> bytes:
        """Returns the proof that this client knows the password. Raises DigestError."""
        asked = _directives(challenge)
        if b"nonce" not in asked or asked.get(b"algorithm") != _ALGORITHM:
            raise DigestError("its challenge is not DIGEST-MD5")
        if _QOP not in asked.get(b"qop", _QOP).replace(b" ", b"").split(b","):
            raise DigestError("it requires signing or encryption, which is not supported")
        charset, realm, nonce = asked.get(b"charset", b""), asked.get(b"realm", b""), asked[b"nonce"]
        try:
            user, password = (each.encode("utf-8" if charset else "latin-1") for each in (self._user, self._password))
            secret = _md5(b":".join((_short(user, charset), _short(realm, charset), _short(password, charset))))
        except UnicodeEncodeError:
            raise DigestError("it does not accept UTF-8, which the user or the password needs") from None
        a1 = b":".join((secret, nonce, self._nonce))
        self._expected = self._response(a1, nonce, b"")
        said = {
            **({b"charset": charset} if charset else {}),
            b"username": _quoted(user),
            b"realm": _quoted(realm),
            b"nonce": _quoted(nonce),
            b"nc": _COUNT,
            b"cnonce": _quoted(self._nonce),
            b"digest-uri": _quoted(self._uri),
            b"response": self._response(a1, nonce, b"AUTHENTICATE"),
            b"qop": _QOP,
        }
        return b",".join(name + b"=" + text for name, text in said.items())

    def check(self, last: bytes) -> None:
        """Raises DigestError unless the message proves that the server knows the password."""
        if not hmac.compare_digest(_directives(last).get(b"rspauth", b""), self._expected):
            raise DigestError("it does not know the password itself")

    def _response(self, a1: bytes, nonce: bytes, method: bytes) -> bytes:
        a2 = method + b":" + self._uri
        return _hex(b":".join((_hex(a1), nonce, _COUNT, self._nonce, _QOP, _hex(a2))))


def _directives(text: bytes) -> Mapping[bytes, bytes]:
    """Returns directives by name. Of a repeated one, such as a realm, returns the first. Raises DigestError."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(text):
        directive = _DIRECTIVE.match(text, at)
        if directive is None:
            raise DigestError("its challenge is not DIGEST-MD5")
        at = directive.end()
        name, quoted, plain = directive.groups()
        found.setdefault(name.lower(), plain if quoted is None else _ESCAPED.sub(rb"\1", quoted))
    return found


def _short(text: bytes, charset: bytes) -> bytes:
    """Returns the text in ISO 8859-1 if that has all its characters, as the RFC requires when UTF-8 is used."""
    try:
        return text.decode().encode("latin-1") if charset else text
    except UnicodeError:
        return text


def _quoted(text: bytes) -> bytes:
    return b'"' + re.sub(rb'(["\\])', rb"\\\1", text) + b'"'


def _md5(text: bytes) -> bytes:
    return hashlib.md5(text, usedforsecurity=False).digest()


def _hex(text: bytes) -> bytes:
    return _md5(text).hex().encode()
