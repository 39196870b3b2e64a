"""Normalises a reply to a tree of plain values, which is the same for two brokers that behave alike.

Ids become names in the order in which they come, wall-clock times become ``<time>``, and rows of an array are sorted.
It leaves out what may differ between brokers: ports, messages for people, throttle times. An assignment by the broker
only shows that it exists: what a member gets, and when, depends in Kafka on the order of a hash map. Of aborted
transactions, it keeps those that begin below the last stable offset. Kafka returns some more, because it looks where a
chunk of its file ends; a reader ignores those.
"""

from __future__ import annotations

import uuid
from typing import Any

from conformance.data import batches
from conformance.differential.broker_side import World

LEFT_OUT = {"throttle_time_ms", "error_message", "host", "port", "node_id", "node_endpoints", "log_append_time_ms"}
ASSIGNMENTS = {"assignment", "member_assignment"}
MEMBERS = {"member_id", "leader"}
TIMES = {"transaction_start_time_ms", "last_timestamp", "timestamp"}
#: Lists over the whole broker: only the sequence's own rows count.
OWN_ROWS = {"ListGroups": ("groups", "group_id"), "ListTransactions": ("transaction_states", "transactional_id")}


def reply_tree(api: str, reply: Any, world: World) -> Any:
    """Returns the tree of one reply."""
    fields = reply.to_dict(json=False)
    if api in OWN_ROWS:
        rows, name = OWN_ROWS[api]
        fields[rows] = [row for row in fields[rows] or [] if row[name].startswith(world.prefix)]
    return _tree(fields, "", world)


def _tree(value: Any, name: str, world: World) -> Any:
    if isinstance(value, dict):
        if value.get("aborted_transactions"):
            value = {**value, "aborted_transactions": _visible(value)}
        return {key: _tree(inner, key, world) for key, inner in value.items() if key not in LEFT_OUT}
    if name == "records":
        return [_batch(header, world) for header in batches.headers(bytes(value or b""))]
    if name == "topic_partitions":
        return "<partitions>"
    if isinstance(value, list | tuple):
        rows = [_tree(inner, name, world) for inner in value]
        return sorted(rows, key=repr)
    return _leaf(value, name, world)


def _visible(partition: dict[str, Any]) -> list[dict[str, Any]]:
    stable = partition["last_stable_offset"]
    return [each for each in partition["aborted_transactions"] if each["first_offset"] < stable]


def _leaf(value: Any, name: str, world: World) -> Any:
    if isinstance(value, uuid.UUID):
        return world.topic_of(value).removeprefix(world.prefix)
    if name in ASSIGNMENTS and isinstance(value, bytes | bytearray | memoryview):
        return _assignment(bytes(value))
    if name in MEMBERS and isinstance(value, str):
        return world.name_member(value)
    if name == "producer_id":
        return world.name_producer(value)
    if name in TIMES and isinstance(value, int) and value > 0:
        return "<time>"
    if isinstance(value, str):
        return value.replace(world.prefix, "")
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _assignment(data: bytes) -> Any:
    """Marks the bytes of a ``ConsumerProtocolAssignment``; other bytes stay as they are."""
    return "<partitions>" if len(data) >= 10 and data.startswith(b"\0") else data


def _batch(header: batches.Header, world: World) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "attributes": header.attributes,
        "count": header.count,
        "producer_id": world.name_producer(header.producer_id),
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
    }
