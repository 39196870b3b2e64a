"""A broker for tests and notebooks: ``with pybroker.run() as broker: broker.bootstrap_servers``.

The broker is a process of its own. It ends with the block, and also when this process ends without
leaving it, by whatever signal: it watches a pipe and this process itself, and removes its temporary
data folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO

READY = re.compile(r"pybroker ready: bootstrap=(\S+) pids=(\S+)")
STOP_S = 15.0


class BrokerFailed(RuntimeError):
    """The broker did not start; the text has what it said."""


class EmbeddedBroker:
    """A running broker, or several.

    bootstrap_servers: ``host:port``, comma-separated; what clients are given.
    pid: the process; of several brokers that of their supervisor. pids: those of the brokers, as they were at the
    start. data_dir: the data folder.
    """

    def __init__(
        self, process: subprocess.Popen[str], log: IO[bytes], data_dir: Path, bootstrap: str, pids: tuple[int, ...]
    ) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid
        self.pids = pids
        self.data_dir = data_dir
        self.bootstrap_servers = bootstrap

    @property
    def log(self) -> str:
        """What the broker has logged."""
        return read_log(self._log)


@contextlib.contextmanager
def run(
    processes: int = 1,
    *,
    port: int = 0,
    data_dir: str | Path | None = None,
    log_level: str = "info",
    start_timeout_s: float = 60.0,
    **config: object,
) -> Iterator[EmbeddedBroker]:
    """Starts brokers, by default one, on free ports; ready when entered, nothing left when left.

    ``config``: Kafka's keys with ``_`` for ``.`` (``num_partitions=3``). ``data_dir``: kept
    afterwards; by default a temporary folder that is not. Raises BrokerFailed.
    """
    folder = Path(tempfile.mkdtemp(prefix="pybroker-") if data_dir is None else data_dir)
    command = [
        *(sys.executable, "-P", "-m", "pybroker", "start", "--embedded", "--port", str(port)),
        *("--processes", str(processes), "--data-dir", str(folder), "--log-level", log_level),
        *(("--temporary",) if data_dir is None else ()),
        *(part for key, value in config.items() for part in ("--set", setting(key, value))),
    ]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
        try:
            bootstrap, pids = wait_until_ready(process, log, start_timeout_s)
            yield EmbeddedBroker(process, log, folder, bootstrap, pids)
        finally:
            stop(process)
            if data_dir is None:
                shutil.rmtree(folder, ignore_errors=True)


def environment() -> dict[str, str]:
    """This process's, in which the child finds the same ``pybroker``, installed or not.

    Sources that are not built (a script inside a clone imports them) are left alone: the child takes
    the installed package, and by ``-P`` not what lies in the working folder.
    """
    if find_spec("cy.codec") is None:
        return dict(os.environ)
    package = str(Path(__file__).parent.parent)
    paths = (package, os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def setting(key: str, value: object) -> str:
    """``key=value`` as ``--set`` takes it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, (list, tuple)):
        text = ",".join(map(str, value))
    return f"{key.replace('_', '.')}={text}"


def wait_until_ready(process: subprocess.Popen[str], log: IO[bytes], timeout_s: float) -> tuple[str, tuple[int, ...]]:
    """The bootstrap servers and processes of the ready line. Raises BrokerFailed."""
    assert process.stdout is not None
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        found = READY.match(process.stdout.readline())
    finally:
        timer.cancel()
    if found is None:
        process.kill()
        code = process.wait()
        raise BrokerFailed(f"the broker did not start (exit code {code}): {read_log(log)}")
    return found[1], tuple(map(int, found[2].split(",")))


def stop(process: subprocess.Popen[str]) -> None:
    """Ends the broker in order, or by force after ``STOP_S``."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def read_log(log: IO[bytes]) -> str:
    """The log's text so far; the broker appends to the same open file, so the position is left
    where it is.
    """
    return os.pread(log.fileno(), 1 << 30, 0).decode(errors="replace")
