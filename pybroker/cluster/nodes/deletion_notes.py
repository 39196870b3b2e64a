"""The notes of deleted topics: each broker that had logs of a deleted topic removes itself from the topic's note.

A broker that was down when a topic was deleted finds the note when it returns, removes its logs, and then itself from
the note. The last broker removes the note. But if nodes of the topic remain, which a node below the note marks, the
note stays without brokers until a controller has removed these nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from pybroker.cluster.metadata import znodes
from pybroker.store.interface import (
    BadVersion,
    Check,
    CoordinationError,
    CoordinationStore,
    Delete,
    NoNode,
    Operation,
    Set,
    Stat,
)

AT_ONCE = 500
ATTEMPTS = 20

_log = logging.getLogger(__name__)


async def confirm_deleted(
    store: CoordinationStore, node_id: int, topic_ids: Iterable[bytes]
) -> None:
    """Notes that this broker has no logs of those topics. If that cannot be written now, the next start repeats it."""
    ids = list(topic_ids)
    try:
        for start in range(0, len(ids), AT_ONCE):
            await _confirm(store, node_id, ids[start : start + AT_ONCE])
    except CoordinationError as error:
        _log.warning("could not note in the coordination store that the logs of deleted topics are gone: %s", error)


async def _confirm(store: CoordinationStore, node_id: int, ids: Sequence[bytes]) -> None:
    paths = [*map(znodes.deleted_path, ids), *map(znodes.remains_path, ids)]
    for _ in range(ATTEMPTS):  # others may remove themselves at the same time
        found = await store.get_many(paths)
        notes = zip(ids, found[: len(ids)], found[len(ids) :], strict=True)
        operations = [op for id, note, mark in notes if note for op in _without(node_id, id, note, mark)]
        if not operations:
            return
        try:
            await store.multi(operations)
            return
        except (BadVersion, NoNode):
            continue


def _without(
    node_id: int, id: bytes, note: tuple[bytes, Stat], mark: tuple[bytes, Stat] | None
) -> Iterable[Operation]:
    """Yields the writes that remove the broker from a note; ``mark`` exists while nodes of the topic remain."""
    path, (data, stat) = znodes.deleted_path(id), note
    left = znodes.decode_left(data)
    rest = tuple(broker for broker in left.brokers or () if broker != node_id)
    if not rest and mark is None:
        yield Delete(path, stat.version)
    elif rest != left.brokers:
        yield Set(path, znodes.encode_left(left._replace(brokers=rest)), stat.version)
        if mark is not None:
            yield Check(znodes.remains_path(id), mark[1].version)
