"""Formats of internal records: keys and values of ``__consumer_offsets`` and similar topics.

``from pyclient.protocol.records import OffsetCommitValue``: there is a message class per schema of ``schemas/records``,
loaded at its first use. ``OffsetCommitValue.encode(version, message)`` returns the version as int16 and the message;
``OffsetCommitValue.decode(data)`` reads both. The version of a key is the type of its record (0 and 1: an offset, 2: a
group).
"""

from __future__ import annotations

from typing import Any

from cy.wire.codec import Codec
from cy.wire.messages import Message
from pyclient.protocol.apis import SCHEMAS
from pyclient.protocol.messages import compiler, message_classes
from pyclient.protocol.schema import read_bodies, read_head

_PATHS = {read_head(path).name: path for path in sorted((SCHEMAS / "records").glob("*.api"))}
__all__ = list(_PATHS)


def _load(name: str) -> type[Message]:
    head = read_head(_PATHS[name])
    body = read_bodies(head)["fields"]

    first, last = head.versions.first, head.versions.last
    message = message_classes(body, name, {"min_version": first, "max_version": last})
    compile_plan = compiler(body, message, head.flexible.__contains__, strict=True)
    codec = Codec(name, -1, first, last, head.flexible_from, compile_plan)
    message.encode = codec.encode_record
    message.decode = codec.decode_open_record if head.is_open else codec.decode_record
    return message


def __getattr__(name: str) -> Any:
    if name not in _PATHS:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    globals()[name] = message = _load(name)
    return message
