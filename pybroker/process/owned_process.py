"""The process of an embedded broker, as its owner sees it: starts it, sends it orders, ends it.

The process has its own session, so Ctrl-C in a terminal and an interrupt in a notebook reach only its owner. The owner
sends its orders (``orders``) to the process's stdin, which ends with the owner.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from cy.client.held_signals import guard, held_signals

STOP_S = 15.0
"""How many seconds a process has to stop in order, before it is killed."""


class OwnedProcess:
    """A process and its log, which exists longer than the process. ``close`` removes ``folder``."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        with _uninterrupted():  # Python writes a file for a moment to find out whether it may write to TMPDIR
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 – it is read after the process has ended

    @property
    def pid(self) -> int | None:
        """The pid of the last process."""
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        """True while the process runs or is suspended."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """Returns all lines that the process has written to stderr, over all starts."""
        return os.pread(self._log.fileno(), 1 << 30, 0).decode(errors="replace")

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the process. A signal that arrives meanwhile is handled afterwards (``abandon``). Raises OSError."""
        self._said = b""
        with _uninterrupted():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                env=environment,
                bufsize=0,
            )

    def say(self, line: str) -> None:
        """Writes a line to the process's stdin. Raises OSError if it has no reader."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def line(self, deadline: float) -> str | None:
        """Returns the next line of the process's stdout; None at the end of stdout, or if no line comes until
        ``deadline`` (``time.monotonic``).
        """
        assert self._process is not None
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        while b"\n" not in self._said:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not waiting.poll(left_s * 1000):
                return None
            data = os.read(fd, 65_536)
            if not data:
                return None
            self._said += data
        line, _, self._said = self._said.partition(b"\n")
        return line.decode(errors="replace")

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process; does nothing if it has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> int:
        """Kills the process. Returns its exit code, -N if signal N ended it."""
        assert self._process is not None
        self._process.kill()
        code = self._process.wait()
        self._close_pipes()
        return code

    def stop(self) -> None:
        """Stops the process cleanly, even a suspended one. Kills it after ``STOP_S`` seconds, or if interrupted."""
        if self._process is None:
            return
        self.send_signal(signal.SIGTERM)
        self.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        except BaseException:
            self.kill()
            raise
        self._close_pipes()

    def close(self) -> None:
        """Stops the process and removes its folder; does nothing in a fork of the owner."""
        if os.getpid() != self._owner:
            return
        try:
            self.stop()
        finally:
            self.remove_folder()

    def abandon(self) -> None:
        """Kills the process and removes its folder. Takes no lock: a signal may have interrupted the thread that has
        it.
        """
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
        self.remove_folder()

    def make_folder(self, prefix: str) -> Path:
        """Creates a temporary folder, which ``close`` removes. Raises OSError."""
        with _uninterrupted():
            self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        return self.folder

    def remove_folder(self) -> None:
        """Removes the process's folder, if there is one."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def forget(self) -> None:
        """Closes the process and its log."""
        self.close()
        self._log.close()

    def _close_pipes(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _uninterrupted() -> AbstractContextManager[None]:
    """Delays signal handlers to the end of the block. Handlers run in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return contextlib.nullcontext()
    guard()
    return held_signals
