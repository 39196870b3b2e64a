"""One broker process, as its supervisor sees it: starts it, reads its messages, ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from pybroker.process.secret_settings import ADD_SCRAM, as_arguments, as_environment
from pybroker.process.start_options import StartOptions

SHOWN = 200
"""How many bytes of a line are logged."""

logger = logging.getLogger("pybroker.process.supervisor")


class Hello(msgspec.Struct, frozen=True):
    """The message of a broker process when it accepts requests."""

    pid: int
    addresses: list[tuple[str, int]]
    """The addresses for clients on this machine."""
    listeners: str
    """The value of ``listeners`` with the real ports."""

    def line(self) -> str:
        """Returns the message as a line for stdout."""
        return msgspec.json.encode(self).decode()


class BrokerProcess:
    """A running process and its ``pid``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.pid = process.pid
        self._process = process

    @classmethod
    async def start(cls, options: StartOptions, root: Path, settings: tuple[str, ...]) -> BrokerProcess:
        """Starts a broker with ``settings`` on top of the ``options``. Raises OSError.

        The process has its own session, so that Ctrl-C reaches only the supervisor, which stops the process in order.
        """
        process = await asyncio.create_subprocess_exec(
            *command(options, root, settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environment() | secrets_of(options, settings),
        )
        return cls(process)

    async def hello(self) -> Hello | None:
        """Waits until the process accepts requests and returns its message; None if it ended before.

        Other lines, for example from a user's ``sitecustomize``, are logged.
        """
        async for line in self._lines():
            try:
                return msgspec.json.decode(line, type=Hello)
            except msgspec.DecodeError:
                logger.warning("process %d says %r", self.pid, line[:SHOWN])
        return None

    async def ended(self) -> int:
        """Waits for the end of the process, and logs its lines. Returns its exit code, -N if signal N ended it."""
        listening = asyncio.ensure_future(self._log_lines())
        try:
            return await self._process.wait()
        finally:
            listening.cancel()

    async def _log_lines(self) -> None:
        async for line in self._lines():
            logger.warning("process %d says %r", self.pid, line[:SHOWN])

    async def _lines(self) -> AsyncIterator[bytes]:
        """Yields the lines of the process's output, without an unfinished last line."""
        assert self._process.stdout is not None
        while not self._process.stdout.at_eof():
            try:
                line = await self._process.stdout.readline()
            except ValueError as error:
                logger.warning("process %d sent a line that is too long: %s", self.pid, error)
            else:
                if line:
                    yield line

    def stop(self) -> None:
        """Stops the process in order, even if it was halted."""
        self._signal(signal.SIGTERM)
        self.go_on()

    def kill(self) -> None:
        """Kills the process."""
        self._signal(signal.SIGKILL)

    def halt(self) -> None:
        """Suspends the process until ``go_on``."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resumes the process if it was suspended."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def command(options: StartOptions, root: Path, settings: tuple[str, ...]) -> list[str]:
    """Returns the command of a member."""
    words = [sys.executable, "-P", "-m", "pybroker", "start", "--member"]
    words += ["--data-dir", str(root), "--log-level", options.log_level]
    words += as_arguments(settings_of(options, settings))
    if options.audit_log is not None:
        words += ["--audit-log", options.audit_log]
    if options.set_scram:
        words.append("--set-scram")
    words += (word for text in options.add_acl for word in ("--add-acl", text))
    if options.base is not None:
        words += ["--base", options.base]
    return words if options.file is None else [*words, options.file]


def secrets_of(options: StartOptions, settings: tuple[str, ...]) -> dict[str, str]:
    """Returns the variables with a member's secrets, which must not appear in a list of processes."""
    return {**as_environment(settings_of(options, settings)), ADD_SCRAM: "\n".join(options.add_scram)}


def settings_of(options: StartOptions, settings: tuple[str, ...]) -> dict[str, str]:
    """Returns the settings of a member by name. The member's own settings override the common ones."""
    texts = (text.partition("=") for text in (*options.settings, *settings))
    return {name.strip(): text for name, _, text in texts}


def environment() -> dict[str, str]:
    """Returns this process's environment, changed so that the child imports the same ``pybroker``."""
    package = str(Path(__file__).parents[2])
    paths = filter(None, (package, os.environ.get("PYTHONPATH", "")))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
