"""The protocol between a shared embedded store and its clients, over a Unix socket.

    frame    := length of the body (4 bytes, big-endian), body
    body     := MessagePack array
    request  := [id, verb, argument]        ids grow from 1, per connection
    reply    := [id, error, value]          in any order; error: [name, text, index] or nil
    event    := [0, nil, path]              the node at a watched path, or its children, may have changed

The first request is HELLO; its reply has the session's id. The session lives as long as the connection, and must send
at least one request per session timeout (PING). A watch is active from its request on: a read that is sent later sees
every change that the watch does not report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from pybroker.store.interface import (
    BadVersion,
    Check,
    ConnectionLoss,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    SessionExpired,
    Set,
    Stat,
)

VERSION = 1
EVENT = 0
MAX_FRAME = 1 << 28


class Verb(IntEnum):
    """The verb of a request, and the argument that it takes."""

    HELLO = 0  # [VERSION, session timeout in ms] -> session id
    PING = 1  # nil -> nil
    READ = 2  # [path…] -> [[data, stat] or nil…]
    CHILDREN = 3  # path -> [name…]
    WRITE = 4  # [[kind, operation]…] -> [result…]
    WATCH = 5  # path -> nil
    UNWATCH = 6  # path -> nil
    CLOSE = 7  # nil -> nil, when the session has ended


class Request(msgspec.Struct, array_like=True):
    """A client's request to the store."""

    id: int
    verb: int
    argument: Any = None


class Reply(msgspec.Struct, array_like=True):
    """The server's reply; with id EVENT, an event."""

    id: int
    error: tuple[str, str, int] | None = None
    value: Any = None


_KINDS: tuple[type[Operation], ...] = (Create, Set, Delete, Check)
_ERRORS: dict[str, type[CoordinationError]] = {
    each.__name__: each
    for each in (
        BadVersion,
        ConnectionLoss,
        NoChildrenForEphemerals,
        NoNode,
        NodeExists,
        NotEmpty,
        SessionExpired,
    )
}

_encoder = msgspec.msgpack.Encoder()
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


def frame(message: Request | Reply) -> bytes:
    """Encodes the message."""
    body = _encoder.encode(message)
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Reads the body of the next frame. Raises EOFError, OSError if the connection has ended."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > MAX_FRAME:
        raise ConnectionError(f"a frame has {length} bytes, too many")
    return await reader.readexactly(length)


def pack_operations(operations: Sequence[Operation]) -> list[tuple[int, Operation]]:
    """Encodes the argument of WRITE."""
    return [(_KINDS.index(type(operation)), operation) for operation in operations]


def unpack_operations(packed: list[Any]) -> list[Operation]:
    """Decodes the operations of a WRITE."""
    return [_KINDS[kind](*fields) for kind, fields in packed]


def unpack_results(packed: list[Any]) -> list[OperationResult]:
    """Decodes the results of a WRITE."""
    return [Stat(*each) if isinstance(each, list) else each for each in packed]


def unpack_nodes(packed: list[Any]) -> list[tuple[bytes, Stat] | None]:
    """Decodes the results of a READ."""
    return [(node[0], Stat(*node[1])) if node else None for node in packed]


def pack_error(error: CoordinationError) -> tuple[str, str, int]:
    """Encodes the error of a reply; a class that the protocol does not have is sent as its base class."""
    name = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _ERRORS or each is CoordinationError)
    return name, str(error), error.index


def unpack_error(packed: tuple[str, str, int]) -> CoordinationError:
    """Decodes the error that the server raised."""
    name, text, index = packed
    return _ERRORS.get(name, CoordinationError)(text, index)
