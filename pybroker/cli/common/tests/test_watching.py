"""--watch: in place on a terminal, row after row in a pipe, until Ctrl-C, whose exit code is 130."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.common.tests.test_tables import read
from pybroker.cli.common.watching import cut, frame
from pybroker.cli.tests.running import Shell

COMMAND = (sys.executable, "-P", "-m", "pybroker")
LAG = ("group", "describe", "g", "--watch", "--interval", "0.1")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run() as broker:
        made = Shell(broker.bootstrap_servers)
        made.done("topic", "create", "t")
        made.done("group", "reset", "g", "--topic", "t", "--to-earliest", "--execute")
        yield made


def begin(shell: Shell, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": shell.bootstrap, "TERM": "xterm"}
    return subprocess.Popen(
        [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment
    )


def ended_by(process: subprocess.Popen[str], number: int) -> int:
    process.send_signal(number)
    process.communicate(timeout=60)
    return process.returncode


def lines_until(process: subprocess.Popen[str], word: str) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if word in line:
            return
    raise AssertionError(f"it ended before it said {word!r}")


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_lag_is_watched_in_a_pipe_row_after_row_until_a_signal(shell: Shell, number: int) -> None:
    process = begin(shell, *LAG)
    heads, row = lines_until(process, " 0  ")
    assert heads.split()[:4] == ["TIME", "GROUP", "TOPIC", "PARTITION"]
    before = int(row.split()[5])
    shell.done("produce", "t", "--value", "x")
    later = list(lines_until(process, f" {before + 1}  "))
    assert not any("TIME" in line for line in later)
    assert ended_by(process, number) == 128 + number


@pytest.mark.nightly
def test_documents_and_csv_have_their_time_too(shell: Shell) -> None:
    process = begin(shell, *LAG, "-o", "jsonl")
    (line,) = lines_until(process, "offsets")
    found = json.loads(line)
    assert list(found)[:2] == ["time", "group"]
    assert ended_by(process, signal.SIGINT) == 130
    process = begin(shell, "topic", "offsets", "t", "-o", "csv", "--watch", "--interval", "0.1")
    assert process.stdout is not None
    assert process.stdout.readline().split(",")[:2] == ["time", "topic"]
    assert process.stdout.readline().split(",")[1] == process.stdout.readline().split(",")[1] == "t"
    assert ended_by(process, signal.SIGINT) == 130


@pytest.mark.nightly
def test_on_a_terminal_each_look_takes_the_place_of_the_last(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    process = begin(shell, *LAG, stdout=theirs)
    os.close(theirs)
    shown = ""
    parts = read(ours)
    while shown.count("\x1b[2F") < 2:  # up by two lines: heads and a row
        shown += next(parts).decode()
    assert "TIME" not in shown
    assert ended_by(process, signal.SIGINT) == 130


@pytest.mark.nightly
def test_documents_and_csv_stand_below_each_other_on_a_terminal_too(shell: Shell) -> None:
    """Their lines may be longer than the terminal is wide."""
    for how in ("jsonl", "csv"):
        ours, theirs = pty.openpty()
        process = begin(shell, *LAG, "-o", how, stdout=theirs)
        os.close(theirs)
        shown, parts = "", read(ours)
        while shown.count("\n") < 3:
            shown += next(parts).decode()
        assert "\x1b" not in shown
        assert "time" in shown
        assert ended_by(process, signal.SIGINT) == 130


def test_unsuitable_formats_and_missing_groups_are_refused(shell: Shell) -> None:
    for how in ("json", "yaml", "name"):
        assert "--watch needs -o table" in shell.refused("group", "lag", "--watch", "-o", how, code=2)
    assert "GROUP_ID_NOT_FOUND" in shell.refused("group", "describe", "nobody", "--watch")


def test_a_temporary_outage_of_the_broker_is_reported_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from pybroker.cli.common import watching
    from pyclient.errors import ConnectionFailed

    told: list[str] = []
    monkeypatch.setattr(watching, "complain", told.append)

    def fail() -> int:
        raise ConnectionFailed("a:1", "connect")

    looks = watching.looks(fail, 0)
    with pytest.raises(ConnectionFailed):
        next(looks)()
    assert next(looks)() == 0
    assert "a:1: connect" in told[0]


def test_a_frame_overwrites_the_previous_one_completely() -> None:
    assert frame(["a", "b"], 0) == "a\x1b[K\nb\x1b[K\n\x1b[J"
    assert frame(["a"], 2) == "\x1b[2Fa\x1b[K\n\x1b[J"
    assert cut(["1", "2", "3", "4"], 4) == ["1", "2", "3", "4"]
    assert cut(["1", "2", "3", "4", "5"], 4) == ["1", "2", "3", "… 2 more lines"]
