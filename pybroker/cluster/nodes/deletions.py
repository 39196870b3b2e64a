"""The notes of topics that were deleted: each broker that had logs of one takes itself off.

A broker that was down when a topic went finds the note when it comes back, removes its logs, and is taken off too. The
last one removes the note. If not all of the topic's nodes are gone, which a node below the note says, the note stays,
without brokers, until a controller has removed them.
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
    """The logs of those topics are gone here. What cannot be written now is at the next start."""
    ids = list(topic_ids)
    try:
        for start in range(0, len(ids), AT_ONCE):
            await _confirm(store, node_id, ids[start : start + AT_ONCE])
    except CoordinationError as error:
        _log.warning("deleted topics stay noted in the coordination store: %s", error)


async def _confirm(store: CoordinationStore, node_id: int, ids: Sequence[bytes]) -> None:
    paths = [*map(znodes.deleted_path, ids), *map(znodes.remains_path, ids)]
    for _ in range(ATTEMPTS):  # others may take themselves off at the same time
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
    """``mark``: the node that says that nodes of the topic are left."""
    path, (data, stat) = znodes.deleted_path(id), note
    left = znodes.decode_left(data)
    rest = tuple(broker for broker in left.brokers or () if broker != node_id)
    if not rest and mark is None:
        yield Delete(path, stat.version)
    elif rest != left.brokers:
        yield Set(path, znodes.encode_left(left._replace(brokers=rest)), stat.version)
        if mark is not None:
            yield Check(znodes.remains_path(id), mark[1].version)
