"""What a broker does by the clock: retention, due syncs, checkpoints.

Each job runs again one interval after it has ended, so it never overtakes itself. What may block
runs on the pool; nothing here runs more often than Kafka's defaults say (the shortest is 5 s).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

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
        """Begins; the first run of each job is one interval away."""
        logs, pool = self._logs, self._executor
        self._every(
            "log.retention.check.interval.ms",
            lambda: logs.run_retention(self._clock.now_ms()),
            None,
        )
        self._every(
            "log.flush.scheduler.interval.ms", lambda: logs.flush_due(self._clock.now_ms()), pool
        )
        self._every(
            "log.flush.offset.checkpoint.interval.ms", logs.checkpoint_recovery_points, pool
        )
        self._every(
            "log.flush.start.offset.checkpoint.interval.ms", logs.checkpoint_log_start_offsets, pool
        )
        self._every(
            "replica.high.watermark.checkpoint.interval.ms", logs.checkpoint_high_watermarks, pool
        )

    def _every(self, key: str, job: Callable[[], object], pool: Executor | None) -> None:
        if 0 < self._config[key] < NEVER_MS:
            self._tasks.append(asyncio.ensure_future(self._repeat(key, job, pool)))

    async def _repeat(self, key: str, job: Callable[[], object], pool: Executor | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._config[key] / 1000)
            try:
                if pool is None:
                    job()
                else:
                    await loop.run_in_executor(pool, job)
            except Exception:
                logger.exception("the job of %s failed; it is tried again", key)

    async def stop(self) -> None:
        """Ends the jobs; one that is running on the pool goes on to its end there."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
