"""Runs the null broker, which costs next to nothing (see ``null_broker.c``), for measuring clients.

On first use, the machine's C compiler compiles it into the folder of the peers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from conformance.data import batches
from harness import peers

HERE = Path(__file__).resolve().parent
START_TIMEOUT_S = 10.0
FLAGS = ("-O2", "-pthread")


class NullBrokerError(RuntimeError):
    """Raised if the null broker does not compile or start. The text holds what it printed."""


def program() -> Path:
    """Compiles the program if its sources are newer, and returns it. If several processes ask at once, the first one
    compiles.

    Raises:
        NullBrokerError: there is no C compiler, or it found an error.
    """
    sources = sorted([*HERE.glob("*.c"), *HERE.glob("*.h")])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    target = peers.folder() / "null_broker" / digest
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                _compile(target)
    return target


def _compile(target: Path) -> None:
    """Compiles to another name, and renames the program when it is complete."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NullBrokerError("no C compiler is installed: `apt-get install gcc`")
    unfinished = target.with_suffix(".unfinished")
    command = [compiler, *FLAGS, "-o", str(unfinished), str(HERE / "null_broker.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NullBrokerError(f"{' '.join(command)} failed:\n{done.stderr}")
    unfinished.rename(target)


def batch_of(size: int, records: int) -> bytes:
    """Returns a batch of ``size``-byte values without keys; each value starts with its number in the batch, 8 digits.
    """
    return batches.batch([b"%08d" % number + b"x" * (size - 8) for number in range(records)])


class NullBroker:
    """A process on 127.0.0.1 that serves every topic as an endless repetition of ``batch``."""

    def __init__(self, batch: bytes, partitions: int = 1) -> None:
        self._batch = batch
        self._partitions = partitions
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.port = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the null broker was not started"
        return self._process.pid

    def logged(self) -> str:
        """Returns a line for each connection that the null broker closed, with the reason."""
        assert self._folder is not None, "the null broker was not started"
        return Path(self._folder.name, "stderr").read_text(errors="replace")

    def __enter__(self) -> Self:
        executable = program()
        self._folder = tempfile.TemporaryDirectory(prefix="null-broker-")
        file = Path(self._folder.name, "batch")
        file.write_bytes(self._batch)
        with Path(self._folder.name, "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [executable, "0", str(self._partitions), file],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"PATH": os.environ.get("PATH", "")},
            )
        self.port = self._ready()
        return self

    def _ready(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        found, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        words = self._process.stdout.readline().split() if found else []
        if len(words) != 2:
            told = self.logged()
            self.__exit__()
            raise NullBrokerError(f"the null broker did not start: {told}")
        return int(words[1])

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
        if self._folder is not None:
            self._folder.cleanup()
