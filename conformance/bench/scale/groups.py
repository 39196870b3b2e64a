"""Measures a group's offsets, and a group of a hundred members."""

from __future__ import annotations

from conformance.bench.large_group import ConsumerMember
from conformance.bench.pipeline import Load
from conformance.bench.scale.spent import PATIENCE_S, Rows, spent
from conformance.bench.scale.wide import Wide, check, rows
from harness.clients.members import find_coordinator
from harness.protocol.wire_client import Wire

#: The most partitions that the suite commits or assigns at once: Kafka puts a commit into one batch of 1 MB.
MOST = 5_000
MEMBERS = 100


def offsets(wide: Wide) -> Rows:
    """Commits and fetches offsets by a group without members."""
    group, topics = "scale-offsets", wide.some(MOST)
    items = sum(topics.values())
    _find(wide, group)
    fields = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    named = rows(topics, partition_index=None, **fields)
    member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    wanted = [{"name": topic, "partitions": partitions} for topic, partitions in named]
    found, reply = wide.ask("OffsetCommit", 8, {"group_id": group, **member, "topics": wanted}, items)
    check(row.error_code for topic in reply.topics for row in topic.partitions)
    yield "offset_commit", found
    indexes = [{"name": topic, "partition_indexes": list(range(count))} for topic, count in topics.items()]
    found, reply = wide.ask("OffsetFetch", 7, {"group_id": group, "topics": indexes, "require_stable": True}, items)
    check(row.error_code for topic in reply.topics for row in topic.partitions)
    yield "offset_fetch", found


def consumer_group(wide: Wide) -> Rows:
    """Forms a group of the consumer protocol, until each member has its share."""
    group, topics = "scale-consumer", wide.some(MOST)
    items = sum(topics.values())
    _find(wide, group)
    members = [ConsumerMember(group, number, list(topics), items // MEMBERS) for number in range(MEMBERS)]
    load = Load(wide.broker, members)
    try:
        yield "consumer_group", spent(wide.broker, items, load.run)
    finally:
        load.close()


def _find(wide: Wide, group: str) -> None:
    with Wire(wide.broker.address, PATIENCE_S) as wire:
        find_coordinator(wire, group)
