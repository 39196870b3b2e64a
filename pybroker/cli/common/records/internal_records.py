"""Records of Kafka's own topics as JSON documents, as Kafka's tools show them; made from the schemas.

    __consumer_offsets    {"type": 1, "data": {"group": "g", "topic": "t", "partition": 0}}
                          {"version": 4, "data": {"offset": 7, …}}
    __transaction_state   {"type": 0, "data": {"transactionalId": "t"}}, {"version": 1, "data": {…}}

The first int16 of a key is the type of the record, and the first int16 of a value is the value's version.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, NamedTuple

from cy.wire.buffer import DecodeError
from pyclient.protocol import records
from pyclient.protocol.apis import SCHEMAS
from pyclient.protocol.schema import Body, Field, read_bodies, read_head
from pyclient.protocol.uuids import to_base64

GROUP_TYPES = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
}
TRANSACTION_TYPES = {0: "TransactionLog"}
OFFSET_COMMITS = frozenset({0, 1})
GROUP_METADATA = frozenset({2})


class Decoded(NamedTuple):
    """A record. ``key``, ``value``: documents; the value of a tombstone is None."""

    type: int
    key: dict[str, Any]
    value: dict[str, Any] | None


def decode(types: dict[int, str], key: bytes | None, value: bytes | None) -> Decoded | None:
    """Decodes a record; returns None for an unknown type. Raises DecodeError."""
    kind = -1 if key is None else int.from_bytes(key[:2], "big", signed=True)
    name = types.get(kind)
    if key is None or name is None:
        return None
    document = {"type": kind, "data": data(f"{name}Key", kind, key)}
    if value is None:
        return Decoded(kind, document, None)
    version = int.from_bytes(value[:2], "big", signed=True)
    return Decoded(kind, document, {"version": version, "data": data(f"{name}Value", version, value)})


def data(name: str, version: int, encoded: bytes) -> dict[str, Any]:
    """Returns the fields of a message. Raises DecodeError."""
    message: Any = getattr(records, name)
    try:
        decoded = message.decode(encoded)
    except ValueError as error:
        raise DecodeError(f"{name} version {version}: {error}") from error
    schema = body(name)
    return struct(schema.fields, decoded, version, schema.all_structs())


@cache
def body(name: str) -> Body:
    """Returns the schema of a record."""
    heads = map(read_head, (SCHEMAS / "records").glob("*.api"))
    return read_bodies(next(head for head in heads if head.name == name))["fields"]


def struct(fields: list[Field], message: Any, version: int, structs: dict[str, list[Field]]) -> dict[str, Any]:
    found = {}
    for field in fields:
        value = getattr(message, field.name)
        if version in field.versions and not (field.tag is not None and is_empty(value)):
            found[camel_case(field.name)] = shown(field, value, version, structs)
    return found


def is_empty(value: Any) -> bool:
    """Says whether the value of a tagged field is null, empty or all zero, so that the field is not sent."""
    return not value or (isinstance(value, bytes) and not any(value))


def shown(field: Field, value: Any, version: int, structs: dict[str, list[Field]]) -> Any:
    if isinstance(value, list):
        return [shown(field, each, version, structs) for each in value]
    if value is None:
        return None
    if field.is_struct:
        return struct(structs[field.type], value, version, structs)
    if field.type == "uuid":
        return to_base64(value)
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return value


def camel_case(name: str) -> str:
    """Returns a name in the form of Kafka's JSON: ``leaderEpoch`` for ``leader_epoch``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
