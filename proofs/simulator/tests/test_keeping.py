"""Checks which folders a broker may remove from a disk."""

from __future__ import annotations

import json
import struct
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from proofs.simulator.machines.disk import Disk, SimulatedInode
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.oracle import Violation
from proofs.simulator.world import World, drawn
from pybroker.log.files import partition_metadata
from pybroker.topic_partition import TopicPartition

TOPIC_ID = bytes(range(16))
LOG, COPY = "/disk/t-0", "/disk2/t-0.4f1d-future"


def batch(offset: int, epoch: int) -> bytes:
    """Makes a batch of one record."""
    return struct.pack(">qiibihi", offset, 15, epoch, 2, 0, 0, 0)


OLD = batch(0, 0) + batch(1, 0)
CUT = batch(0, 0) + batch(1, 1)


def folder(disk: Disk, path: str, data: bytes) -> None:
    disk.add(path, None)
    disk.add(f"{path}/{partition_metadata.FILE_NAME}", SimulatedInode(partition_metadata.encode(TOPIC_ID)))
    disk.add(f"{path}/{0:020d}.log", SimulatedInode(data))


def world_with(committed: bytes) -> tuple[World, TopicPartition]:
    """Makes a world in which that much of ``t-0`` was committed."""
    world = World(0, drawn(0, ""))
    key = world.oracle.incarnations.key(TOPIC_ID, "t", 0)
    chain = world.oracle.committed[key] = Chain()
    chain.add_all(committed)
    return world, key


def is_allowed(removed: str, folders: dict[str, bytes], committed: bytes) -> bool:
    """Returns whether the oracle permits the removal of a folder."""
    world, _ = world_with(committed)
    oracle, machine = world.oracle, world.cluster.add_machine(1)
    oracle.keeping.watch(machine)
    for path, data in folders.items():
        folder(machine.disk, path, data)
    machine.disk.on_removal(removed)
    try:
        oracle.check()
    except Violation:
        return False
    return True


@pytest.mark.parametrize("committed", [b"", batch(0, 0), CUT], ids=["nothing", "less", "all"])
def test_a_copy_may_be_removed_if_the_truncated_log_has_all_committed_records(committed: bytes) -> None:
    assert is_allowed(COPY, {LOG: CUT, COPY: OLD}, committed)


def test_a_copy_with_more_committed_records_than_its_log_must_stay() -> None:
    assert not is_allowed(COPY, {LOG: batch(0, 0), COPY: OLD}, OLD)
    assert not is_allowed(COPY, {COPY: OLD}, OLD)


def test_a_log_without_committed_records_must_stay() -> None:
    assert not is_allowed(LOG, {LOG: OLD}, b"")
    assert not is_allowed(LOG, {LOG: OLD, COPY: CUT}, b"")
    assert is_allowed(LOG, {LOG: OLD, COPY: OLD}, OLD)


@pytest.mark.parametrize("topic_id", [None, TOPIC_ID], ids=["unreadable", "known"])
def test_an_out_of_sync_replica_may_lack_records_of_a_topic_whose_nodes_are_lost(topic_id: bytes | None) -> None:
    world, key = world_with(OLD)
    keeping = world.oracle.keeping
    world.oracle.acked[key] = 2
    for node_id, data in {1: batch(0, 0), 2: OLD, 3: OLD}.items():
        folder(world.cluster.add_machine(node_id).disk, LOG, data)
    keeping.estrange(key, (1, 2, 3))
    keeping.state_written(key, bytes(16), state(isr=[2], elr=[3]))  # of another topic
    keeping.state_written(key, topic_id, b"{]")
    with pytest.raises(Violation, match="broker 1 was in sync"):
        keeping.check_end()
    keeping.state_written(key, topic_id, state(isr=[2], elr=[3]))
    keeping.check_end()
    assert keeping.estranged[key] == (2, 3)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_only_the_log_of_a_deleted_topic_may_be_opened_empty_again(is_deleted: bool) -> None:
    """A starting broker may load the topic first, and then learn of its deletion."""
    world, key = world_with(OLD)
    if is_deleted:
        world.oracle.incarnations.noted.add(TOPIC_ID)
    log: Any = SimpleNamespace(log_end_offset=0)
    world.oracle.keeping.reopened((1, key), world.oracle.committed[key], log)
    with nullcontext() if is_deleted else pytest.raises(Violation, match="starts again"):
        world.oracle.check()


def state(**fields: object) -> bytes:
    return json.dumps({"leader": 2, "leader_epoch": 0, **fields}).encode()
