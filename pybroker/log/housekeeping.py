"""The periodic jobs of a broker: retention, due syncs, checkpoints.

Each job runs again one interval after it has ended, so two runs never overlap. Jobs that may block
run on the pool. By Kafka's defaults the shortest interval is 5 s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial

from pybroker.clock import Clock
from pybroker.config import BrokerConfig
from pybroker.log.manager import LogManager

NEVER_MS = 1 << 50

logger = logging.getLogger(__name__)


class Housekeeping:
    """The periodic jobs of one broker, between ``start`` and ``stop``."""

    def __init__(
        self, logs: LogManager, config: BrokerConfig, clock: Clock, executor: Executor
    ) -> None:
        self._logs = logs
        self._config = config
        self._clock = clock
        self._executor = executor
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts the jobs. Each runs for the first time after one interval."""
        logs = self._logs
        self._every("log.retention.check.interval.ms", self._retention_round)
        for key, blocking in (
            ("log.flush.scheduler.interval.ms", lambda: logs.flush_due(self._clock.now_ms())),
            ("log.flush.offset.checkpoint.interval.ms", logs.checkpoint_recovery_points),
            ("log.flush.start.offset.checkpoint.interval.ms", logs.checkpoint_log_start_offsets),
            ("replica.high.watermark.checkpoint.interval.ms", logs.checkpoint_high_watermarks),
        ):
            self._every(key, partial(self._on_pool, blocking))

    async def _retention_round(self) -> None:
        """Applies retention on the loop, in a turn for each log."""
        for _ in self._logs.retention_round(self._clock.now_ms()):
            await asyncio.sleep(0)

    async def _on_pool(self, blocking: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, blocking)

    def _every(self, key: str, job: Callable[[], Awaitable[None]]) -> None:
        if 0 < self._config[key] < NEVER_MS:
            self._tasks.append(asyncio.ensure_future(self._repeat(key, job)))

    async def _repeat(self, key: str, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._config[key] / 1000)
            try:
                await job()
            except Exception:
                logger.exception("the periodic job of %s failed; it is tried again", key)

    async def stop(self) -> None:
        """Stops the jobs. A job that is running on the pool still runs to its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
