"""Halted processes, and whether two observations are of the same halt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pybroker.store.halted import halt_of

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is halted"),
]


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        yield running
        running.kill()


def halted(process: subprocess.Popen[bytes]) -> str:
    """Halts the process; returns its halt."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    return halt_of(process.pid)


def echo(process: subprocess.Popen[bytes]) -> None:
    """Returns as soon as the process has echoed a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"x\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"x\n"


def test_a_running_process_is_not_halted(process: subprocess.Popen[bytes]) -> None:
    echo(process)
    assert halt_of(process.pid) == ""
    assert halt_of(0) == ""


def test_a_halt_keeps_its_identity_until_the_process_runs_again(process: subprocess.Popen[bytes]) -> None:
    echo(process)
    first = halted(process)
    assert first
    assert halt_of(process.pid) == first
    process.send_signal(signal.SIGCONT)
    echo(process)
    assert halt_of(process.pid) == ""
    assert halted(process) != first
