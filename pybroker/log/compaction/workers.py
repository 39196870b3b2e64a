"""The threads that compact: as many as ``log.cleaner.threads`` says, each at one log at a time.

A thread that finds nothing to do sleeps for ``log.cleaner.backoff.ms``. All threads share one budget
of bytes (``log.cleaner.io.max.bytes.per.second``). The memory for offset maps
(``log.cleaner.dedupe.buffer.size``) is divided among them; a thread takes its share only while it compacts.
The keys are dynamic: a change interrupts the threads, and starts new ones.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from pybroker.clock import Clock
from pybroker.config import BrokerConfig
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.compaction import Resources
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.interruption import Interrupted, Interruption
from pybroker.log.manager import LogManager

T = TypeVar("T")
LEAST_BACKOFF_S = 0.001

logger = logging.getLogger(__name__)


class CompactionWorkers:
    """The compaction of one broker, between ``start`` and ``stop``."""

    def __init__(self, logs: LogManager, config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        self._throttle = Throttle()
        self._interruption = Interruption()
        self._threads: list[threading.Thread] = []
        self.cleaner = Cleaner(logs, clock, self._throttle, self._on_loop)

    def start(self) -> None:
        """Starts the threads, and restarts them when the configuration changes."""
        self._begin()
        self._config.on_change(self._on_config_change)

    def _begin(self) -> None:
        config = self._config
        self._throttle.bytes_per_second = config["log.cleaner.io.max.bytes.per.second"]
        interruption = self._interruption = Interruption()
        count = config["log.cleaner.threads"] if config["log.cleaner.enable"] else 0
        for number in range(count):
            arguments = (interruption, self._resources(count))
            thread = threading.Thread(target=self._work, args=arguments, name=f"compaction-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _resources(self, threads: int) -> Resources:
        config = self._config
        return Resources(
            map_bytes=config["log.cleaner.dedupe.buffer.size"] // threads,
            load_factor=config["log.cleaner.io.buffer.load.factor"],
            read_bytes=max(4096, config["log.cleaner.io.buffer.size"] // threads // 2),
        )

    def _on_config_change(self, names: frozenset[str]) -> None:
        if not any(name.startswith("log.cleaner.") for name in names) or self._interruption.is_wanted:
            return
        self._interruption.interrupt()
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._begin()

    async def stop(self) -> None:
        """Stops the threads, and waits for their end. Compactions in progress are abandoned."""
        self._interruption.interrupt()
        threads, self._threads = self._threads, []
        for thread in threads:
            while thread.is_alive():
                await asyncio.sleep(0.005)

    # On the threads

    def _work(self, interruption: Interruption, resources: Resources) -> None:
        while not interruption.is_wanted:
            try:
                if not self._clean_next(resources, interruption):
                    interruption.wait(max(LEAST_BACKOFF_S, self._config["log.cleaner.backoff.ms"] / 1000))
            except Interrupted:
                return

    def _clean_next(self, resources: Resources, interruption: Interruption) -> bool:
        try:
            return self.cleaner.clean_next(resources, interruption)
        except Interrupted:
            raise
        except Exception:
            logger.exception("a compaction failed unexpectedly; it is tried again")
            return False

    def _on_loop(self, work: Callable[[], T]) -> T:
        """Runs ``work`` on the loop's thread, and returns its result. Raises its errors, and Interrupted if the loop
        has ended.
        """
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(run)
            return done.result()
        except (RuntimeError, CancelledError) as error:
            if self._loop.is_closed():
                raise Interrupted from error
            raise
