"""Replaces what production code takes from its process: random numbers, threads, the machine's name.

During a history, all of it comes from the seed.
"""

from __future__ import annotations

import os
import random
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from proofs.simulator.machines.disk import Slice
from proofs.simulator.machines.scheduler import InlinePool, Scheduler
from proofs.simulator.machines.threads import LockOfEach
from pybroker.cluster import node
from pybroker.log import durability
from pybroker.log.dirs import log_dir
from pybroker.log.files import index_file
from pybroker.log.moving import move
from pybroker.log.removal import leaving, removals
from pybroker.log.segment import slicing
from pybroker.log.startup import closing
from pybroker.net import peer
from pybroker.replication import replica_manager
from pybroker.replication.leading import follower_fetches

Patch = tuple[Any, str, Any]


@contextmanager
def environment(scheduler: Scheduler, seed: int) -> Iterator[None]:
    """Makes production code take its random numbers from ``seed`` inside the block."""
    rng = random.Random(f"environment {seed}")

    def new_uuid() -> uuid.UUID:
        return uuid.UUID(bytes=rng.randbytes(16), version=4)

    def boot() -> str:
        return f"boot-{_machine(scheduler).boot}"

    def machine() -> str:
        return f"machine {_machine(scheduler).node_id}"

    chance = SimpleNamespace(
        Random=lambda *args: random.Random(*(args or (rng.random(),))),
        randint=rng.randint,
        uniform=rng.uniform,
        random=rng.random,
    )
    patches: list[Patch] = [
        (uuid, "uuid4", new_uuid),
        (os, "urandom", rng.randbytes),
        (secrets, "token_bytes", rng.randbytes),
        (node, "boot_of_machine", boot),
        (node, "name_of_machine", machine),
        (closing, "ThreadPoolExecutor", InlinePool),
        (slicing, "FileSlice", Slice),
        *((module, "random", chance) for module in (node, peer, follower_fetches, replica_manager)),
    ]
    threads = scheduler.threads
    if threads is not None:
        locks = SimpleNamespace(Lock=threads.lock, RLock=threads.lock)
        patches += [(module, "threading", locks) for module in (durability, leaving, log_dir, move, removals)]
        patches.append((index_file, "_saving", LockOfEach(threads)))
    with patched(patches):
        yield


@contextmanager
def patched(patches: list[Patch]) -> Iterator[None]:
    """Replaces each (owner, name) by its value inside the block."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def _machine(scheduler: Scheduler) -> Any:
    """Returns the machine of the running process."""
    assert scheduler.current is not None
    return scheduler.current.machine
