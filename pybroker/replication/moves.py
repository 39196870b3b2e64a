"""Moves of replicas between the log dirs of this broker (AlterReplicaLogDirs, KIP-113).

A move goes on in the background: pool threads copy the log while it is in use, until what is left
is small; the rest is copied on the loop's thread, between two requests, and from then on the log
lives in the new dir.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor

from pybroker.clock import Clock
from pybroker.log.manager import LogManager
from pybroker.log.move import Move
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

logger = logging.getLogger(__name__)


class Moves:
    """The moves that are going on, and where replicas that are not here yet are to be made."""

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._loop = loop
        self._executor = executor
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._preferred: dict[TopicPartition, str] = {}

    def start(self, topic_partition: TopicPartition, path: str) -> None:
        """Begins to move a replica to the log dir ``path``; one that is there already stays.

        A replica that this broker does not have is made there when it comes. Raises LogDirNotFound,
        KafkaStorageError, ReplicaNotAvailable.
        """
        self._logs.dir_at(path)
        if self._logs.get(topic_partition) is None:
            self._preferred[topic_partition] = path
        move = self._logs.move(topic_partition, path)
        if move is not None:
            self._tasks[topic_partition] = self._loop.create_task(self._run(move))

    def preferred_dir(self, topic_partition: TopicPartition) -> str | None:
        """Where a new replica is to be made, if anybody has said so; told once."""
        return self._preferred.pop(topic_partition, None)

    async def _run(self, move: Move) -> None:
        tp = move.log.topic_partition
        try:
            while not await self._loop.run_in_executor(self._executor, move.copy):
                if move.cancelled:
                    return
            if not move.cancelled:
                move.finish(self._clock.now_ms())
                logger.info("%s is in %s now", tp, move.target.path)
        except errors.KafkaStorageError as error:
            logger.error("%s stays in %s: %s", tp, move.log.log_dir.path, error)
            move.cancel()
        finally:
            if move.cancelled:
                _remove_copy(move)
            if self._tasks.get(tp) is asyncio.current_task():
                del self._tasks[tp]

    def close(self) -> None:
        """Ends every move; the logs stay where they are."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()


def _remove_copy(move: Move) -> None:
    """What the copying thread may have written after the move was cancelled."""
    try:
        if move.target.storage.exists(move.folder):
            move.target.storage.remove_folder(move.folder)
    except OSError as error:
        move.target.fail(error, f"removing {move.folder}")
