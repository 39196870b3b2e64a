"""The ``pybroker`` command as a process, as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

READY = re.compile(r"pybroker ready: bootstrap=127\.0\.0\.1:(\d+) pids=(\d+)\n")
DEADLINE_S = 20


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "pybroker", *map(str, arguments)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    return {**kept, **(extra or {})}


def run(*arguments: object, env: Mapping[str, str] | None = None) -> Ended:
    """Runs a command that ends by itself."""
    ended = subprocess.run(
        command(*arguments),
        capture_output=True,
        input="",
        text=True,
        timeout=DEADLINE_S,
        env=environment(env),
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


class Running:
    """A broker that has said that it is ready."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port

    def stop(self, number: int = signal.SIGTERM) -> Ended:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return Ended(self.process.returncode, out, err)


@contextmanager
def broker(
    data_dir: Path | str, *arguments: object, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A running broker on a free port; killed at the end if it still runs."""
    process = subprocess.Popen(
        command("--port", 0, "--data-dir", data_dir, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(env),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        ready = READY.fullmatch(process.stdout.readline())
        assert ready, process.stderr.read()
        assert int(ready[2]) == process.pid
        yield Running(process, int(ready[1]))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
