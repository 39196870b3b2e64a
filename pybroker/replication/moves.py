"""Moves of replicas between the log dirs of this broker (AlterReplicaLogDirs, KIP-113).

A move goes on in the background. Pool threads copy the log while it is in use, and sync the copy, until the rest is
small. The rest is copied on the loop's thread, between two requests. From then on the log lives in the new dir. Threads
then do the remaining syncs and removals (``log.move``).
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
"""Between two attempts to end a move: a sync may hold the log."""

SETTLING_PAUSE_S = 1.0
"""Before a move is ended once more that could not be, for a lack of descriptors."""

logger = logging.getLogger(__name__)


class Moves:
    """The moves that are going on, and where replicas that are not here yet are to be made."""

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
        """Begins to move a replica to the log dir ``path``; one that is there already stays.

        A replica that this broker does not have is made there when it comes. Raises LogDirNotFound,
        KafkaStorageError, ReplicaNotAvailable.
        """
        log_dir = self._logs.dir_at(path)
        if self._logs.get(topic_partition) is None:
            self._preferred.remember(topic_partition, log_dir.path, self._clock.monotonic_ms())
        move = self._logs.move(topic_partition, path)
        if move is not None:
            before = self._tasks.get(topic_partition)
            self._tasks[topic_partition] = self._loop.create_task(self._run(move, before))

    def preferred_dir(self, topic_partition: TopicPartition) -> str | None:
        """Where a new replica is to be made, if anybody has said so and the log dir works; told once."""
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
                logger.info("%s is in %s now", tp, move.target.path)
        except errors.KafkaError as error:
            logger.error("the move of %s to %s: %s", tp, move.target.path, error)
            move.cancel()
        except Exception:
            logger.exception("the move of %s to %s", tp, move.target.path)
            move.cancel()
        finally:
            if self._tasks.get(tp) is asyncio.current_task():
                del self._tasks[tp]

    async def _switched(self, move: Move) -> bool:
        """Copies until the log can go on in the target dir; False where the move was cancelled."""
        while not move.cancelled:
            await self._loop.run_in_executor(self._copies, move.copy)
            if move.switch():
                return True
            await asyncio.sleep(PAUSE_S)
        return False

    async def _settle(self, move: Move) -> None:
        """Again and again where descriptors are lacking: no disk has failed. Raises KafkaStorageError."""
        while True:
            try:
                await self._loop.run_in_executor(self._settling, move.settle)
                return
            except errors.KafkaStorageError as error:
                if move.target.offline and not move.log.files.is_deleted:
                    raise
                logger.warning("the move of %s to %s ends later: %s", move.log.topic_partition, move.target.path, error)
            await asyncio.sleep(SETTLING_PAUSE_S)

    def close(self) -> None:
        """Ends every move; the logs stay where they are."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
