"""Moves replicas between the log dirs of this broker (AlterReplicaLogDirs, KIP-113).

A move runs in the background. Pool threads copy the log while it is in use, and sync the copy, until little is
left. The loop's thread copies the remaining bytes between two requests, and from then on the log is in the new dir.
Threads do the remaining syncs and removals (``log.moving``).
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor

from pybroker.clock import Clock
from pybroker.log.dirs.preferred_dirs import PreferredDirs
from pybroker.log.manager import LogManager
from pybroker.log.moving.move import Move
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

PAUSE_S = 0.01
"""The pause between two attempts to switch a log to its new dir, which a running sync may prevent."""

SETTLING_PAUSE_S = 1.0
"""The pause before the next attempt to complete a move, after file descriptors were lacking."""

logger = logging.getLogger(__name__)


class Moves:
    """The moves in progress, and the log dirs that were chosen for replicas that do not exist yet."""

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        copies: Executor,
        settling: Executor,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._loop = loop
        self._copies = copies
        self._settling = settling
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._preferred = PreferredDirs()

    def start(self, topic_partition: TopicPartition, path: str) -> None:
        """Begins to move a replica to the log dir ``path``, unless it is there already.

        A replica that this broker does not have yet will be created there. Raises LogDirNotFound, KafkaStorageError,
        ReplicaNotAvailable.
        """
        log_dir = self._logs.dir_at(path)
        if self._logs.get(topic_partition) is None:
            self._preferred.remember(topic_partition, log_dir.path, self._clock.monotonic_ms())
        move = self._logs.move(topic_partition, path)
        if move is not None:
            before = self._tasks.get(topic_partition)
            self._tasks[topic_partition] = self._loop.create_task(self._run(move, before))

    def preferred_dir(self, topic_partition: TopicPartition) -> str | None:
        """Removes and returns the log dir that was chosen for a new replica; None if there is none or it is offline."""
        path = self._preferred.take(topic_partition, self._clock.monotonic_ms())
        if path is None or any(log_dir.path == path for log_dir in self._logs.online_dirs):
            return path
        logger.warning("%s is created in another log dir, because its own is offline: %s", topic_partition, path)
        return None

    async def _run(self, move: Move, before: asyncio.Task[None] | None) -> None:
        tp = move.log.topic_partition
        try:
            if before is not None:
                await asyncio.wait([before])
            if await self._switched(move):
                await self._settle(move)
                logger.info("%s was moved to %s", tp, move.target.path)
        except errors.KafkaError as error:
            logger.error("%s cannot be moved to %s: %s", tp, move.target.path, error)
            move.cancel()
        except Exception:
            logger.exception("%s cannot be moved to %s", tp, move.target.path)
            move.cancel()
        finally:
            if self._tasks.get(tp) is asyncio.current_task():
                del self._tasks[tp]

    async def _switched(self, move: Move) -> bool:
        """Copies until the log has switched to the target dir. Returns False if the move was cancelled."""
        while not move.cancelled:
            await self._loop.run_in_executor(self._copies, move.copy)
            if move.switch():
                return True
            await asyncio.sleep(PAUSE_S)
        return False

    async def _settle(self, move: Move) -> None:
        """Completes a move; tries again while file descriptors are lacking. Raises KafkaStorageError."""
        while True:
            try:
                await self._loop.run_in_executor(self._settling, move.settle)
                return
            except errors.KafkaStorageError as error:
                if move.target.offline and not move.log.files.is_deleted:
                    raise
                tp, path = move.log.topic_partition, move.target.path
                logger.warning("the move of %s to %s cannot be completed yet: %s", tp, path, error)
            await asyncio.sleep(SETTLING_PAUSE_S)

    def close(self) -> None:
        """Cancels every move; the logs stay where they are."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
