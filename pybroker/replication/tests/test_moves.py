"""Replicas that move to another log dir of their broker."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from pybroker.cluster.metadata.image import (
    MetadataDelta,
)
from pybroker.log.files.storage import Storage
from pybroker.log.moving.move import Move
from pybroker.log.tests.helpers import contents
from pybroker.replication.tests.harness import NOW, TP, MakeNode, batch, folders, in_time
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class SlowToCopy(Storage):
    """A disk on which moves advance only on command."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def make_folder(self, path: str) -> None:
        if path.endswith("-future"):
            assert self.go_on.wait(60)
        super().make_folder(path)


def test_neither_acks_nor_metadata_wait_for_moves(make_node: MakeNode) -> None:
    storage = SlowToCopy()
    node = make_node(dirs=2, storage=storage)
    node.create("moving", partitions=12)
    node.create(flush_acks="true")
    for index in range(12):
        tp = TopicPartition("moving", index)
        source = node.replicas.partition(tp).log.log_dir.path
        node.replicas.moves.start(tp, next(path for path in node.paths if path != source))
    node.turn()
    try:
        appended = node.replicas.append(TP, batch(b"a"), -1, NOW)
        node.run(in_time(appended.done))
        node.create("u")
        deletion = MetadataDelta(deleted={"u": node.metadata.image.topics["u"]})
        node.run(in_time(node.metadata.publish(deletion)))
    finally:
        storage.go_on.set()
    node.run(in_time(asyncio.wait(list(node.replicas.moves._tasks.values()))))


def test_replica_moves_to_another_dir_while_in_use(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    partition = node.create()
    for _ in range(10):
        node.append(b"a")
    source = partition.log.log_dir.path
    target = next(path for path in node.paths if path != source)
    node.replicas.moves.start(TP, target)
    node.append(b"b")

    async def moved() -> None:
        await node.replicas.moves._tasks[TP]

    node.run(moved())
    node.append(b"c")
    assert partition.log.log_dir.path == target
    assert os.path.isdir(f"{target}/t-0")
    assert not os.path.isdir(f"{source}/t-0")
    assert contents(partition.log)[-2:] == [(10, b"b"), (11, b"c")]
    node.stop()
    node.start()
    assert node.replicas.partition(TP).log.log_end_offset == 12


def test_a_new_replica_is_created_in_the_requested_dir(make_node: MakeNode) -> None:
    node = make_node(dirs=3)
    with pytest.raises(errors.ReplicaNotAvailable):
        node.replicas.moves.start(TP, node.paths[2])
    assert node.create().log.log_dir.path == node.paths[2]


def test_deleted_topic_no_longer_moves(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    partition = node.create()
    target = next(path for path in node.paths if path != partition.log.log_dir.path)
    node.replicas.moves.start(TP, target)
    moving = node.replicas.moves._tasks[TP]
    node.delete()
    node.run(moving)
    node.pools.removals.submit(lambda: None).result()  # by then, all earlier removals have ended
    assert folders(node) == []
    assert not node.logs.offline_dirs


@pytest.mark.parametrize("error", [errors.CorruptMessage("noise"), ValueError("a fault of ours")], ids=repr)
def test_any_error_during_a_move_cancels_it(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Otherwise nobody could move or compact the log before the next start."""

    def copy(self: Move) -> None:
        raise error

    node = make_node(dirs=2)
    partition = node.create()
    target = next(path for path in node.paths if path != partition.log.log_dir.path)
    with monkeypatch.context() as patch:
        patch.setattr(Move, "copy", copy)
        node.replicas.moves.start(TP, target)
        node.run(asyncio.wait([node.replicas.moves._tasks[TP]]))
    assert node.logs.moving_to(TP) is None
    node.replicas.moves.start(TP, target)
    node.run(asyncio.wait([node.replicas.moves._tasks[TP]]))
    assert partition.log.log_dir.path == target
