"""What acks=all promises: the records are on every replica in sync, and with ``flush.acks`` on the disk.

The followers' part shows in the high watermark; ours, where the topic wants it, is a sync that is
shared by all who wait for one of that log. Followers sync before they name the offset, so the high
watermark speaks of disks then (``following.fetchers``).

Loop's thread only; syncs run on the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from pybroker.log.appending import AppendInfo
from pybroker.log.group_commit import Done, GroupCommit
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory, WaitingAck


class Appended:
    """An append: its outcome, and ``done``, the future of what ``acks`` promises (None: it holds
    already).

    ``done`` raises NotEnoughReplicasAfterAppend, NotLeaderOrFollower, RequestTimedOut,
    KafkaStorageError.
    """

    __slots__ = ("done", "info")

    def __init__(self, info: AppendInfo, done: asyncio.Future[None] | None) -> None:
        self.info = info
        self.done = done


class Promises:
    """The requests that wait for records to be safe."""

    def __init__(self, purgatory: Purgatory, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._purgatory = purgatory
        self._loop = loop
        self._executor = executor
        self._commits: dict[Partition, GroupCommit] = {}

    def promise(self, partition: Partition, last_offset: int, timeout_ms: int) -> WaitingAck | None:
        """The future of acks=all for the records up to ``last_offset``, None where it holds
        already.

        Raises as ``Partition.is_replicated``.
        """
        synced = partition.log.config.flush_acks
        if not synced and partition.is_replicated(last_offset):
            return None
        waiting = WaitingAck(self._purgatory, partition, last_offset, synced)
        if waiting.holds():
            return None
        self._purgatory.park(waiting, (partition,), timeout_ms)
        if synced:
            self._sync(partition, last_offset, waiting)
        return waiting

    def _sync(self, partition: Partition, last_offset: int, waiting: WaitingAck) -> None:
        def synced(error: Exception | None) -> None:
            if error is None:
                waiting.woken()
            else:
                waiting.fail(error)

        if self.sync(partition, last_offset + 1, synced):
            waiting.woken()

    def sync(self, partition: Partition, offset: int, done: Done) -> bool:
        """Brings everything below ``offset`` to the disk, by one sync for all who want that.

        ``done(error or None)`` is called unless it returns True: it is there already.
        """
        commit = self._commits.get(partition)
        if commit is None:
            commit = self._commits[partition] = GroupCommit(partition.log, self._on_pool)
        return commit.wait(offset, done)

    def keep_start(self, partition: Partition, done: Done) -> None:
        """The partition's log start survives a crash (``Log.keep_start``); then ``done(error or None)``."""
        self._on_pool(partition.log.keep_start, done)

    def forget(self, partition: Partition) -> None:
        """The partition has gone."""
        self._commits.pop(partition, None)

    def _on_pool(self, work: Callable[[], object], done: Done) -> None:
        """Runs ``work`` on a pool thread, then ``done(error or None)`` here."""

        def run() -> None:
            error: Exception | None = None
            try:
                work()
            except Exception as failure:
                error = failure
            self._loop.call_soon_threadsafe(done, error)

        self._executor.submit(run)
