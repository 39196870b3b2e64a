"""Ctrl-C while the demo runs, in a terminal: it ends at once, at whatever moment, and leaves nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.tests.waiting import until

pytestmark = pytest.mark.nightly

AT_ONCE_S = 15
"""The limit for "at once": long enough for a busy machine, but shorter than a client's wait for a killed broker."""
IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
DEMO = (sys.executable, "-m", "pybroker", "demo", "-n", "60000")
INTERRUPT = b"\x03"


class Terminal:
    """Runs a command in its own terminal. ``shown``: what the command has written there."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.shown = b""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 65_536):
            self.shown += data

    def wait_for(self, text: bytes) -> None:
        until(lambda: text in self.shown or self.process.poll() is not None)
        assert text in self.shown

    def type(self, keys: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(keys)
        self.process.stdin.flush()

    def end(self) -> int:
        code = self.process.wait(AT_ONCE_S)
        self._reading.join()
        return code


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    """Runs the demo in a terminal, with its temporary files in ``folder``."""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, *DEMO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder), "TERM": "xterm"},
    )
    try:
        yield Terminal(process)
    finally:
        process.kill()
        process.communicate()


def processes_of(folder: Path) -> list[int]:
    """Returns the processes whose command names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("moment", [b"A broker at", b"%", b"copied", b"acked"])
def test_ctrl_c_ends_the_demo_at_once_and_nothing_is_left(tmp_path: Path, moment: bytes) -> None:
    with terminal(tmp_path) as shell:
        shell.wait_for(moment)
        shell.type(INTERRUPT)
        assert shell.end() == 130
    assert b"Traceback" not in shell.shown
    assert shell.shown.count(b"\x1b[?25h") >= shell.shown.count(b"\x1b[?25l"), "the cursor is hidden"
    until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))


def test_ctrl_c_ends_a_demo_whose_broker_hangs_at_once(tmp_path: Path) -> None:
    """No client waits for an answer of the broker before the demo ends."""
    with terminal(tmp_path) as shell:
        shell.wait_for(b"%")
        (broker,) = processes_of(tmp_path)
        os.kill(broker, signal.SIGSTOP)
        shell.type(INTERRUPT)
        assert shell.end() == 130
    until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))


def test_ctrl_c_while_the_broker_starts_ends_both(tmp_path: Path) -> None:
    with terminal(tmp_path) as shell:
        until(lambda: bool(list(tmp_path.iterdir())))
        shell.type(INTERRUPT)
        assert shell.end() == 130
    assert b"Traceback" not in shell.shown
    until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))


def test_a_demo_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    with terminal(tmp_path) as shell:
        shell.wait_for(b"Streaming")
        (pid,) = map(int, Path(f"/proc/{shell.process.pid}/task/{shell.process.pid}/children").read_text().split())
        os.kill(pid, signal.SIGKILL)
        shell.end()
    until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))
