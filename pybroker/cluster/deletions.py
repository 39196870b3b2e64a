"""The notes of topics that were deleted: each broker that had logs of one takes itself off.

A broker that was down when a topic went finds the note when it comes back, removes its logs, and is
taken off too. The last one removes the note.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from pybroker.cluster import znodes
from pybroker.coordination.interface import (
    BadVersion,
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
    paths = [znodes.deleted_path(topic_id) for topic_id in topic_ids]
    try:
        for start in range(0, len(paths), AT_ONCE):
            await _confirm(store, node_id, paths[start : start + AT_ONCE])
    except CoordinationError as error:
        _log.warning("deleted topics stay noted in the coordination store: %s", error)


async def _confirm(store: CoordinationStore, node_id: int, paths: Sequence[str]) -> None:
    for _ in range(ATTEMPTS):  # others may take themselves off at the same time
        notes = zip(paths, await store.get_many(paths), strict=True)
        operations = [op for path, note in notes if note for op in _without(node_id, path, note)]
        if not operations:
            return
        try:
            await store.multi(operations)
            return
        except (BadVersion, NoNode):
            continue


def _without(node_id: int, path: str, note: tuple[bytes, Stat]) -> Iterable[Operation]:
    data, stat = note
    left = znodes.decode_left(data)
    rest = tuple(broker for broker in left.brokers or () if broker != node_id)
    if not rest:
        yield Delete(path, stat.version)
    elif rest != left.brokers:
        yield Set(path, znodes.encode_left(left._replace(brokers=rest)), stat.version)
