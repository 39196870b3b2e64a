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

from pybroker.tests.waiting import until

READY = re.compile(r"pybroker ready: bootstrap=127\.0\.0\.1:(\d+) pids=(\d+)\n")
ALL_READY = re.compile(r"pybroker ready: bootstrap=(127\.0\.0\.1:\d+(?:,127\.0\.0\.1:\d+)*) pids=([\d,]+)\n")
DEADLINE_S = 60.0


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
    """A broker that has printed its ready line."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port

    def stop(self, number: int = signal.SIGTERM) -> Ended:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return Ended(self.process.returncode, out, err)


class RunningFleet(Running):
    """Several brokers that have printed the ready line. ``port``: the port of the first one."""

    def __init__(self, process: subprocess.Popen[str], ports: list[int], pids: list[int]) -> None:
        super().__init__(process, ports[0])
        self.ports = ports
        self.pids = pids


def is_alive(pid: int) -> bool:
    """Returns whether the process runs or is halted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def fleet(
    data_dir: Path | str, *arguments: object, env: Mapping[str, str] | None = None
) -> Iterator[RunningFleet]:
    """Yields several running brokers on free ports; none is left at the end."""
    with started(data_dir, *arguments, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = ALL_READY.fullmatch(process.stdout.readline())
        assert ready, process.stderr.read()
        pids = [int(pid) for pid in ready[2].split(",")]
        try:
            yield RunningFleet(process, [int(address.split(":")[1]) for address in ready[1].split(",")], pids)
        finally:
            process.kill()
            for pid in pids:
                until(lambda pid=pid: not is_alive(pid))


@contextmanager
def started(
    data_dir: Path | str, *arguments: object, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Yields the command on free ports; killed at the end if it still runs."""
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
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@contextmanager
def broker(
    data_dir: Path | str, *arguments: object, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Yields a running broker on a free port; killed at the end if it still runs."""
    with started(data_dir, *arguments, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = READY.fullmatch(process.stdout.readline())
        assert ready, process.stderr.read()
        assert int(ready[2]) == process.pid
        yield Running(process, int(ready[1]))
