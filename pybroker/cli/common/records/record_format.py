"""``-f``: the format in which a record is written, in kcat's language.

    %t topic   %p partition   %o offset   %T timestamp (ms)   %h headers (name=value,…)
    %k key     %K its length, -1 for none   %s value   %S its length   %R value's length as 4 bytes, big-endian
    %% a percent sign   \\n \\r \\t \\\\ \\x41   a control character, a byte

A key or value that is None is written as nothing, or as the text of ``-Z``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pybroker.cli.common.words import as_typed

if TYPE_CHECKING:
    from cy.consume.records import Record

Part = Callable[["Record"], bytes]

TOKEN = re.compile(rb"%.|%$|\\x[0-9a-fA-F]{2}|\\.|[^%\\]+|\\$", re.DOTALL)
ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t", b"\\\\": b"\\", b"\\0": b"\0"}


def compiled(pattern: str, null: bytes = b"") -> Callable[[Record], bytes]:
    """Compiles a format into a function that writes a record. Raises ValueError for an unknown letter."""
    parts = fields(null)
    chosen = [part_of(token, parts) for token in TOKEN.findall(pattern.encode())]

    def write(record: Record) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in chosen])

    return write


def unescaped(text: str) -> bytes:
    """Returns the bytes of a text with ``\\t``, ``\\x00`` …."""
    return b"".join(escape(token) or token for token in TOKEN.findall(as_typed(text)))


def escape(token: bytes) -> bytes | None:
    if token.startswith(b"\\x") and len(token) == 4:
        return bytes([int(token[2:], 16)])
    return ESCAPES.get(token)


def part_of(token: bytes, parts: dict[bytes, Part]) -> bytes | Part:
    character = escape(token)
    if character is not None:
        return character
    if token == b"%%":
        return b"%"
    if token.startswith(b"%"):
        if token not in parts:
            known = " ".join(each.decode() for each in (*parts, b"%%"))
            raise ValueError(f"{token.decode()} is not a letter of -f: use {known}")
        return parts[token]
    return token


def fields(null: bytes) -> dict[bytes, Part]:
    """Returns the function that writes each letter's field."""
    return {
        b"%t": lambda record: record.topic.encode(),
        b"%p": lambda record: b"%d" % record.partition,
        b"%o": lambda record: b"%d" % record.offset,
        b"%T": lambda record: b"%d" % record.timestamp,
        b"%h": lambda record: b",".join(header(name, value, null) for name, value in record.headers),
        b"%k": lambda record: null if record.key is None else record.key,
        b"%K": lambda record: b"%d" % length(record.key),
        b"%s": lambda record: null if record.value is None else record.value,
        b"%S": lambda record: b"%d" % length(record.value),
        b"%R": lambda record: length(record.value).to_bytes(4, "big", signed=True),
    }


def length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def header(name: str, value: bytes | None, null: bytes) -> bytes:
    return name.encode() + b"=" + (null if value is None else value)
