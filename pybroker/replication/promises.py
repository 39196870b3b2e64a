"""Fulfils acks=all: the records are on all in-sync replicas and, with ``flush.acks``, on their disks.

The high watermark shows which records the followers have. With ``flush.acks``, followers sync before they fetch again
(``following.fetchers``), so the high watermark shows which records are on their disks. The leader syncs as well; one
sync serves all requests that wait for the same log.

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
    """An append: its outcome, and ``done``, a future that ends when ``acks`` is fulfilled (None: already fulfilled).

    ``done`` raises NotEnoughReplicasAfterAppend, NotLeaderOrFollower, RequestTimedOut,
    KafkaStorageError.
    """

    __slots__ = ("done", "info")

    def __init__(self, info: AppendInfo, done: asyncio.Future[None] | None) -> None:
        self.info = info
        self.done = done


class Promises:
    """Creates the waits of acks=all, and runs the syncs that they need."""

    def __init__(self, purgatory: Purgatory, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._purgatory = purgatory
        self._loop = loop
        self._executor = executor
        self._commits: dict[Partition, GroupCommit] = {}

    def promise(self, partition: Partition, last_offset: int, timeout_ms: int) -> WaitingAck | None:
        """Returns a future that ends when acks=all is fulfilled for the records up to ``last_offset``.

        Returns None if it is fulfilled already.
        Raises the errors of ``Partition.is_replicated``.
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
        """Syncs the records below ``offset``, together with other requests, and calls ``done(error or None)``.

        If they are on the disk already, returns True and does not call ``done``.
        """
        commit = self._commits.get(partition)
        if commit is None:
            commit = self._commits[partition] = GroupCommit(partition.log, self._on_pool)
        return commit.wait(offset, done)

    def keep_start(self, partition: Partition, done: Done) -> None:
        """Makes the partition's log start durable (``Log.keep_start``), then calls ``done(error or None)``."""
        self._on_pool(partition.log.keep_start, done)

    def forget(self, partition: Partition) -> None:
        """Forgets a partition that this broker no longer has."""
        self._commits.pop(partition, None)

    def _on_pool(self, work: Callable[[], object], done: Done) -> None:
        """Runs ``work`` on a pool thread, then ``done(error or None)`` on the loop's thread."""

        def run() -> None:
            error: Exception | None = None
            try:
                work()
            except Exception as failure:
                error = failure
            self._loop.call_soon_threadsafe(done, error)

        self._executor.submit(run)
