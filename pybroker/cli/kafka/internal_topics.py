"""Records of ``__consumer_offsets`` for people, as Kafka's OffsetsMessageFormatter shows them: a JSON document each.

    {"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":3,"data":{"offset":7,…}}}

Other records of that topic are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cy.records import Record

OFFSET_TYPES = (0, 1)


def offsets(record: Record) -> bytes:
    """The line of a committed offset, or of its deletion; nothing for another record."""
    found = offset_document(record.key, record.value)
    return b"" if found is None else json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def offset_document(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Key and value of a committed offset, None of any other record. Raises DecodeError."""
    from pyclient.protocol.records import OffsetCommitKey

    if key is None or int.from_bytes(key[:2], "big", signed=True) not in OFFSET_TYPES:
        return None
    decoded = OffsetCommitKey.decode(key)
    data = {"group": decoded.group, "topic": decoded.topic, "partition": decoded.partition}
    kind = int.from_bytes(key[:2], "big", signed=True)
    return {"key": {"type": kind, "data": data}, "value": None if value is None else offset_value(value)}


def offset_value(data: bytes) -> dict[str, Any]:
    """The fields that a value of this version has."""
    from pyclient.protocol.records import OffsetCommitValue
    from pyclient.protocol.uuids import to_base64

    version, value = int.from_bytes(data[:2], "big", signed=True), OffsetCommitValue.decode(data)
    fields: dict[str, Any] = {"offset": value.offset}
    if version >= 3:
        fields["leaderEpoch"] = value.leader_epoch
    fields |= {"metadata": value.metadata, "commitTimestamp": value.commit_timestamp}
    if version == 1:
        fields["expireTimestamp"] = value.expire_timestamp
    if version >= 4:
        fields["topicId"] = to_base64(value.topic_id)
    return {"version": version, "data": fields}
