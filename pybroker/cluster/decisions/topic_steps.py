"""Creates, extends and deletes topics in steps that fit into a write to the store.

A large topic is created with some of its partitions and then extended; the metadata are consistent after each step. The
first step of a deletion notes the topic in /admin/delete_topics and removes it from the metadata. Later steps, for
which no client waits, remove the nodes of a topic with several partitions. A *mark*, a node below the note, shows that
nodes remain. Each later step checks the mark, and the last one removes it together with the topic's root. A new topic
of the same name cannot exist before that, so no step removes the new topic's nodes. Brokers remove themselves from the
note when their logs are gone, which may be earlier. If a crash or a refused write has left nodes, this or the next
controller reads them from the store and removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

from pybroker.cluster.decisions import plan as plans
from pybroker.cluster.decisions.plan import BYTES_PER_PARTITION, PARTITIONS_PER_STEP, Removal, Step
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import Configs, MetadataDelta, MetadataImage, TopicImage
from pybroker.store.interface import ANY_VERSION, Check, Create, Delete, Operation

REMOVED_AT_ONCE: Final = 10
"""How many partitions a topic may have so that the first step of its deletion removes its nodes."""


class _Piece(NamedTuple):
    operations: list[Operation]
    weight: int
    changed: TopicImage | None = None
    deleted: TopicImage | None = None


def creation_steps(image: MetadataImage, topics: Iterable[TopicImage]) -> list[Step]:
    """Returns the steps that create the topics."""
    epoch = image.controller_epoch
    return list(_packed(piece for topic in topics for piece in _creation(topic, epoch)))


def _creation(topic: TopicImage, controller_epoch: int) -> Iterator[_Piece]:
    first = _part(topic, PARTITIONS_PER_STEP)
    operations = list(plans.create_topic(first, controller_epoch))
    yield _Piece(operations, len(first.partitions) + 1 + _weight(topic.configs), first)
    yield from _growth(topic, len(first.partitions), controller_epoch)


def _weight(configs: Configs) -> int:
    """Returns how many partitions a configuration is worth, since its node and the journal have a copy each."""
    return ceil(2 * sum(len(key) + len(value) for key, value in configs.items()) / BYTES_PER_PARTITION)


def _part(topic: TopicImage, partitions: int) -> TopicImage:
    if partitions >= len(topic.partitions):
        return topic
    return topic._replace(partitions=topic.partitions[:partitions])


def growth_steps(image: MetadataImage, topics: Iterable[TopicImage]) -> list[Step]:
    """Returns the steps that add the partitions that the topics in ``image`` lack."""
    pieces = (
        piece
        for topic in topics
        for piece in _growth(topic, len(image.topics[topic.name].partitions), image.controller_epoch)
    )
    return list(_packed(pieces))


def _growth(topic: TopicImage, existing: int, controller_epoch: int) -> Iterator[_Piece]:
    for start in range(existing, len(topic.partitions), PARTITIONS_PER_STEP):
        grown = _part(topic, start + PARTITIONS_PER_STEP)
        operations = [plans.set_assignments(grown)]
        for partition in grown.partitions[start:]:
            operations += plans.create_partition(topic.name, partition, controller_epoch)
        yield _Piece(operations, len(grown.partitions) - start, grown)


class Deletion(NamedTuple):
    """The steps that delete some topics, now and later."""

    steps: list[Step]
    """The writes that delete the topics, and note which logs and perhaps which nodes remain."""
    later: list[Removal]
    """The removals of the remaining nodes, for which no answer waits."""


def deletion_of(topics: Iterable[TopicImage], torn: Mapping[str, Sequence[str]]) -> Deletion:
    """Returns the deletion of the topics. If a topic's nodes are incomplete, ``torn`` has those that exist."""
    pieces: list[_Piece] = []
    later: list[Removal] = []
    for topic in topics:
        first, *rest = _deletion(topic, torn.get(topic.name))
        pieces.append(first)
        if rest:
            later.append(Removal(topic.id, topic.name, list(_packed(rest))))
    return Deletion(list(_packed(pieces)), later)


def _deletion(topic: TopicImage, torn: Sequence[str] | None) -> Iterator[_Piece]:
    note: list[Operation] = [
        Create(znodes.deleted_path(topic.id), znodes.encode_left(znodes.left_of(topic)))
    ]
    indexes = [partition.index for partition in topic.partitions]
    if torn is None and len(indexes) <= REMOVED_AT_ONCE:
        nodes = [*plans.delete_partitions(topic.name, indexes), *plans.delete_root(topic.name)]
        yield _Piece([*note, *nodes], len(indexes) + 1, deleted=topic)
        return
    mark = znodes.remains_path(topic.id)
    yield _Piece([*note, Create(mark)], 2, deleted=topic)
    yield from _removal(topic.name, indexes, mark) if torn is None else _removal_of(topic.name, torn, mark)


def removal_steps(topic_id: bytes, name: str, paths: Sequence[str]) -> list[Step]:
    """Returns the steps that remove ``paths``, the remaining nodes of a topic that is noted as deleted."""
    return list(_packed(_removal_of(name, paths, znodes.remains_path(topic_id))))


def _removal(name: str, indexes: Sequence[int], mark: str) -> Iterator[_Piece]:
    for start in range(0, len(indexes), PARTITIONS_PER_STEP):
        chunk = indexes[start : start + PARTITIONS_PER_STEP]
        yield _Piece([Check(mark, ANY_VERSION), *plans.delete_partitions(name, chunk)], len(chunk))
    yield _Piece([*plans.delete_root(name), Delete(mark)], 2)


def _removal_of(name: str, paths: Sequence[str], mark: str) -> Iterator[_Piece]:
    root = [delete for delete in plans.delete_root(name) if delete.path in paths]
    above = {delete.path for delete in root}
    below = [path for path in paths if path not in above]
    for start in range(0, len(below), PARTITIONS_PER_STEP):
        chunk = below[start : start + PARTITIONS_PER_STEP]
        yield _Piece([Check(mark, ANY_VERSION), *map(Delete, chunk)], len(chunk))
    yield _Piece([*root, Delete(mark)], 2)


def _packed(pieces: Iterable[_Piece]) -> Iterator[Step]:
    """Yields steps with as many pieces as fit."""
    gathered: list[_Piece] = []
    for piece in pieces:
        if gathered and sum(p.weight for p in gathered) + piece.weight > PARTITIONS_PER_STEP:
            yield _step(gathered)
            gathered = []
        gathered.append(piece)
    if gathered:
        yield _step(gathered)


def _step(pieces: Sequence[_Piece]) -> Step:
    operations = [operation for piece in pieces for operation in piece.operations]
    changed = {p.changed.name: p.changed for p in pieces if p.changed is not None}
    deleted = {p.deleted.name: p.deleted for p in pieces if p.deleted is not None}
    return Step(operations, MetadataDelta(changed=changed, deleted=deleted))
