"""Runs tests in a fork of a process that has imported pytest and the broker, to save the start of a Python."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

from proofs.defects import rooms

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "hypothesis", *rooms()])
OUTER = ("PYTEST_",)
"""The prefix of the calling pytest's variables. Its forks must not inherit them."""


class Ended(NamedTuple):
    """``code`` is pytest's exit code, or the negative number of the signal that ended it."""

    code: int
    output: str


def run_tests(arguments: Sequence[str], root: Path, timeout_s: float) -> Ended:
    """Runs pytest with these arguments in the folder ``root``, and ends all processes that it leaves behind.

    Raises:
        TimeoutError: it took longer; the text contains its output.
    """
    with tempfile.TemporaryDirectory(prefix="pybroker-", ignore_cleanup_errors=True) as folder:
        said = Path(folder) / "output"
        arguments = [*arguments, f"--basetemp={folder}/tests"]
        with _forked(arguments, root, said) as process:
            process.join(timeout_s)
            code = process.exitcode
        output = said.read_text(errors="replace") if said.exists() else ""
    if code is None:
        raise TimeoutError(output)
    return Ended(code, output)


@contextlib.contextmanager
def _forked(arguments: Sequence[str], root: Path, said: Path) -> Iterator[ForkServerProcess]:
    process = FORKS.Process(target=_run, args=(list(arguments), root, said))
    process.start()
    try:
        yield process
    finally:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()


def _run(arguments: list[str], root: Path, said: Path) -> None:
    """Runs in the fork. It ends without waiting for threads that a failed test has left."""
    import pytest

    os.setsid()
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    for name in [name for name in os.environ if name.startswith(OUTER)]:
        del os.environ[name]
    os.chdir(root)
    code = pytest.main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
