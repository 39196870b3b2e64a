"""The brokers of one supervisor: started together, restarted when one has ended, stopped together.

Every broker has a keeper, a task that runs its process again and again. If the first start of a broker fails because of
wrong usage (exit 2), all brokers end. In all other cases, a broker that has ended is restarted after ``restart_delay``,
on its earlier ports. Failing starts wait longer each time, up to ``LONGEST_DELAY_S``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pybroker.config import BrokerConfig
from pybroker.data_folder import DataFolder
from pybroker.process.broker_process import BrokerProcess, Hello
from pybroker.process.foreground import first_of
from pybroker.process.start_options import StartOptions, settings_of_members
from pybroker.server import StartError
from pybroker.store.interface import ConnectionLoss
from pybroker.store.server import StoreServer

MISUSED = 2
STOP_PATIENCE_S = 120.0
LONGEST_DELAY_S = 15.0
"""The longest delay between failing starts, unless ``--restart-delay`` is longer."""

logger = logging.getLogger("pybroker.process.supervisor")


class FleetFailed(Exception):
    """Raised if a broker was started with wrong options; it has printed why."""


class Member:
    """One broker with all its successive processes.

    ``hello`` is the message of its last process that accepted requests, None before the first one. ``is_misused`` is
    True if the broker never started because of wrong options.
    """

    def __init__(
        self,
        node_id: int,
        settings: tuple[str, ...],
        options: StartOptions,
        folder: DataFolder,
        news: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.hello: Hello | None = None
        self.is_misused = False
        self._news = news
        self._process: BrokerProcess | None = None
        self._runs = False  # True from just before a process exists until it has ended
        self._stopping = asyncio.Event()
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._failed_starts = 0
        """How many starts have failed in a row."""
        self._changed = asyncio.Condition()
        self._settings = settings
        self._options = options
        self._folder = folder

    async def keep(self) -> bool:
        """Runs the broker until it is stopped; returns whether it stopped in order."""
        while await self._is_wanted():
            code = await self._run()
            if self._stopping.is_set():
                return code in (0, -signal.SIGTERM)
            if code == MISUSED and self.hello is None:
                self.is_misused = True
                self._news()
                return True
            await self._pause(code)
        return True

    async def _is_wanted(self) -> bool:
        """Waits until a killed broker should be restarted; returns False if the broker was stopped."""
        if not (self._wanted.is_set() or self._stopping.is_set()):
            logger.warning("broker %d stays down, as requested", self.node_id)
            await first_of(self._wanted, self._stopping)
        return not self._stopping.is_set()

    async def _pause(self, code: int) -> None:
        if not self._wanted.is_set():
            return
        delay_s = self._delay_s() if code else 0.0  # a broker that stopped in order was told to stop
        level = logging.WARNING if code else logging.INFO
        logger.log(level, "broker %d has ended%s; starting it again in %g s", self.node_id, _how(code), delay_s)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay_s)

    def _delay_s(self) -> float:
        """Returns the delay before the next start, which doubles with each failed start, for example on a full disk."""
        shortest_s = self._options.restart_delay
        longer_s = shortest_s * 2.0 ** max(0, self._failed_starts - 1)
        return max(shortest_s, min(longer_s, LONGEST_DELAY_S))

    async def _run(self) -> int:
        """Runs one process from start to end; returns its exit code."""
        self._runs = True
        self._failed_starts += 1  # the process sets it back by its hello
        try:
            process = await self._start()
            return 1 if process is None else await self._see_out(process)
        finally:
            self._process, self._runs = None, False
            await self._tell()

    async def _start(self) -> BrokerProcess | None:
        """Starts the next process; returns None if the system cannot start it."""
        settings, options = self._settings, self._options
        if self.hello is not None:
            settings = (*settings, f"listeners={self.hello.listeners}")
            options = replace(options, set_scram=False)  # a password that was changed since the first start stays
        try:
            self._process = await BrokerProcess.start(options, self._folder.root, settings)
        except OSError as error:
            logger.error("broker %d could not be started: %s", self.node_id, error)
        return self._process

    async def _see_out(self, process: BrokerProcess) -> int:
        try:
            return await self._follow(process)
        except Exception:
            logger.exception("broker %d: lost track of process %d, killing it", self.node_id, process.pid)
            process.kill()
            return 1

    async def _follow(self, process: BrokerProcess) -> int:
        logger.info("broker %d is process %d", self.node_id, process.pid)
        if self._stopping.is_set():
            process.stop()
        elif not self._wanted.is_set():
            process.kill()
        hello = await process.hello()
        if hello is not None:
            self.hello = hello
            self._failed_starts = 0
            self._news()
            await self._tell()
        return await process.ended()

    async def _tell(self) -> None:
        """Wakes tasks that wait for a change of the process's state."""
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, state: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(state)

    def stop(self) -> None:
        """Stops the process cleanly, and does not restart it."""
        self._stopping.set()
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Kills the process."""
        if self._process is not None:
            self._process.kill()

    async def kill_and_hold(self) -> None:
        """Kills the process. No other one is started until ``restart``."""
        self._wanted.clear()
        self.kill()
        await self._until(lambda: not self._runs)

    async def restart(self) -> None:
        """Stops the process in order, if there is one; returns when a new one accepts requests."""
        old = self._process
        if old is not None:
            old.stop()
        self._wanted.set()
        await self._until(lambda: self._is_ready() and self._process is not old)

    async def pause(self) -> None:
        """Suspends the process."""
        if self._process is not None:
            self._process.halt()

    async def resume(self) -> None:
        """Resumes a suspended process."""
        if self._process is not None:
            self._process.go_on()

    def _is_ready(self) -> bool:
        """Returns whether the running process accepts requests."""
        return self._process is not None and self.hello is not None and self.hello.pid == self._process.pid


def _signal(number: int) -> str:
    """Returns the signal's name; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _how(code: int) -> str:
    """Returns how a process has ended, for the log."""
    if code < 0:
        return f" by {_signal(-code)}"
    return f" with exit code {code}" if code else ""


class Fleet:
    """All brokers of one supervisor, and the store that they share."""

    def __init__(self, options: StartOptions, config: BrokerConfig, folder: DataFolder) -> None:
        self._serves_store = not (config["zookeeper.connect"] or options.join)
        self._folder = folder
        self._store: StoreServer | None = None
        self._news = asyncio.Event()
        self._members = [
            Member(node_id, settings, options, folder, self._news.set)
            for node_id, settings in enumerate(settings_of_members(options, config), config["node.id"])
        ]
        self._keepers: list[asyncio.Task[bool]] = []

    async def start(self, stop: asyncio.Event) -> bool:
        """Starts all brokers. Returns True when each accepts requests, False if ``stop`` is set before.

        Raises StartError, FleetFailed.
        """
        if self._serves_store:
            self._store = await self._open_store()
        self._keepers = [asyncio.ensure_future(member.keep()) for member in self._members]
        while not all(member.hello for member in self._members):
            self._news.clear()
            await first_of(stop, self._news)
            if any(member.is_misused for member in self._members):
                raise FleetFailed
            if stop.is_set():
                return False
        return True

    async def _open_store(self) -> StoreServer:
        try:
            return await StoreServer.open(str(self._folder.store), str(self._folder.socket))
        except ConnectionLoss as error:
            raise StartError(f"coordination store {error}") from error

    def member(self, node_id: int) -> Member:
        """Returns the broker with that id. Raises KeyError."""
        return {member.node_id: member for member in self._members}[node_id]

    def addresses(self) -> list[tuple[str, int]]:
        """Returns the brokers' addresses for clients on this machine."""
        return [address for member in self._members if member.hello for address in member.hello.addresses]

    def pids(self) -> list[int]:
        """Returns the process id of each broker's last process that accepted requests."""
        return [member.hello.pid for member in self._members if member.hello]

    async def stop(self, at_once: asyncio.Event) -> bool:
        """Stops all brokers and the store, by force once ``at_once`` is set. Returns whether all have stopped in order.
        """
        for member in self._members:
            member.stop()
        clean = await self._all_ended(at_once)
        if self._store is not None:
            await self._store.close()
        return clean

    async def _all_ended(self, at_once: asyncio.Event) -> bool:
        if not self._keepers:
            return True
        ends: asyncio.Future[list[bool]] = asyncio.gather(*self._keepers)
        impatience = asyncio.ensure_future(at_once.wait())
        waits: list[asyncio.Future[Any]] = [ends, impatience]
        await asyncio.wait(waits, timeout=STOP_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        impatience.cancel()
        if not ends.done():
            logger.warning("not all brokers have stopped; killing the others")
            for member in self._members:
                member.kill()
        return all(await ends)
