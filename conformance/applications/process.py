"""An application as a process with a log: tests start, kill, stop and restart it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

STOP_TIMEOUT_S = 120


class Application:
    """One process. ``log_file`` gets the output of all its starts."""

    def __init__(self, command: Sequence[str], log_file: Path) -> None:
        self.command = list(command)
        self.log_file = log_file
        self.process: subprocess.Popen[bytes] | None = None
        self._begin = 0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> Self:
        self._begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        return self

    def logged(self) -> str:
        """Returns the output of the process since its last start."""
        if not self.log_file.exists():
            return ""
        return self.log_file.read_bytes()[self._begin :].decode(errors="replace")

    def check(self) -> None:
        """Raises:
        AssertionError: it has ended by itself; the text ends with what it printed.
        """
        code = None if self.process is None else self.process.poll()
        assert code is None, f"it ended with {code}:\n{self.logged()[-4000:]}"

    def kill(self) -> None:
        """Kills the process with SIGKILL, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
