"""Retention of offsets: OffsetFetch, OffsetDelete, deleted topics, and expiry (KIP-211).

An offset refers to its topic by id. It is valid as long as that topic may exist. Once another topic has the name, the
offset is *outdated*. Every fetch checks this, because the group may have had no coordinator when the topic was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from pybroker.coordinator.group.context import GroupContext
from pybroker.coordinator.group.offset_store import OffsetStore
from pybroker.coordinator.group.offsets import NONE, UNSTABLE, CommittedOffset, Offsets
from pybroker.coordinator.group.records import no_offset_record
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.shard import Record, Result
from pyclient.protocol import ZERO_UUID, OffsetDelete, errors

if TYPE_CHECKING:
    from pybroker.coordinator.group.group import Group

Wanted = Iterable[tuple[str, list[int]]]
Committed = list[tuple[str, Mapping[int, CommittedOffset]]]


class Keeper(Protocol):
    """The part of the shard that this module uses."""

    settings: GroupSettings
    context: GroupContext
    offsets: OffsetStore


def fetch(
    shard: Keeper, group_id: str, wanted: Wanted | None, *, stable: bool
) -> Committed:
    """Returns the offsets by topic and partition; of all topics if ``wanted`` is None.

    A partition without an offset is NONE. With ``stable``, an offset in an open transaction is UNSTABLE.
    """
    topics = shard.offsets.of(group_id).topics()
    pending = shard.offsets.pending(group_id) if stable else ()
    found: list[tuple[str, dict[int, CommittedOffset]]] = []
    if wanted is None:
        for topic, all in topics.items():
            if current := _current(shard, topic, all):
                found.append((topic, current))
    else:
        for topic, indexes in wanted:
            known = _current(shard, topic, topics.get(topic, {}))
            found.append((topic, {index: known.get(index, NONE) for index in indexes}))
    if pending:
        for topic, known in found:
            for index in known:
                if (topic, index) in pending:
                    known[index] = UNSTABLE
    return [(topic, known) for topic, known in found]


def _current(
    shard: Keeper, topic: str, offsets: Mapping[int, CommittedOffset]
) -> dict[int, CommittedOffset]:
    """Returns the offsets without outdated ones."""
    image = shard.context.image().topic(topic)
    if image is None:
        return dict(offsets)
    counting = (ZERO_UUID, image.id)
    return {index: each for index, each in offsets.items() if each.topic_id in counting}


def delete(
    shard: Keeper, group: Group, request: OffsetDelete.Request, result: Result
) -> OffsetDelete.Response:
    """Deletes offsets of topics that the group does not read; returns an outcome for each partition."""
    response = OffsetDelete.Response()
    offsets = shard.offsets
    for topic in request.topics:
        subscribed = group.is_subscribed(topic.name)
        code = errors.GroupSubscribedToTopic.code if subscribed else errors.NONE
        known = offsets.of(group.id).topics().get(topic.name, {})
        outcome = OffsetDelete.Response.OffsetDeleteResponseTopic(name=topic.name)
        for asked in topic.partitions:
            index = asked.partition_index
            outcome.partitions.append(
                OffsetDelete.Response.OffsetDeleteResponsePartition(
                    partition_index=index, error_code=code
                )
            )
            is_kept = index in known or offsets.is_pending(group.id, topic.name, index)
            if is_kept and not subscribed:
                result.write(no_offset_record(group.id, topic.name, index))
        response.topics.append(outcome)
    return response


def delete_all(shard: Keeper, group_id: str) -> Iterator[Record]:
    """Yields tombstones of all offsets of the group, including pending ones."""
    offsets = shard.offsets.of(group_id)
    for topic, partition, _ in offsets:
        yield no_offset_record(group_id, topic, partition)
    for topic, partition in shard.offsets.pending(group_id):
        if partition not in offsets.topics().get(topic, ()):
            yield no_offset_record(group_id, topic, partition)


def forget_topics(shard: Keeper, gone: Mapping[str, bytes]) -> Iterator[Record]:
    """Yields tombstones of the offsets of deleted topics (ids by name).

    Offsets of another topic with the same name stay.
    """
    for topic, topic_id in gone.items():
        for group_id, partition in shard.offsets.of_topic(topic):
            known = shard.offsets.of(group_id).get(topic, partition).topic_id
            if known in (ZERO_UUID, topic_id):
                yield no_offset_record(group_id, topic, partition)


def _outdated(shard: Keeper, offsets: Offsets, until_ms: int) -> Iterator[tuple[str, int]]:
    """Yields the outdated offsets that were committed at ``until_ms`` or before, even if members read the new topic."""
    for topic, partitions in offsets.topics().items():
        current = _current(shard, topic, partitions)
        if len(current) < len(partitions):
            for partition, committed in partitions.items():
                if partition not in current and committed.committed_ms <= until_ms:
                    yield topic, partition


def outlived(shard: Keeper, group: Group, now_ms: int) -> Iterator[Record]:
    """Yields tombstones of the group's expired offsets, and of the group itself if it is empty and has no other
    offsets.
    """
    offsets = shard.offsets.of(group.id)
    pending = shard.offsets.pending(group.id)
    since_ms = group.retention_start() if offsets else None
    retention_ms = shard.settings.offsets_retention_ms
    expired = dict.fromkeys(_outdated(shard, offsets, now_ms - retention_ms))
    if since_ms is not None:
        subscribed = group.is_subscribed
        expired |= dict.fromkeys(offsets.expired(now_ms, retention_ms, since_ms, subscribed))
    count = 0
    for topic, partition in expired:
        if (topic, partition) not in pending:
            count += 1
            yield no_offset_record(group.id, topic, partition)
    if group.may_go and not pending and count == offsets.count:
        yield from group.tombstones()
