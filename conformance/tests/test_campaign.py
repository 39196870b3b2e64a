"""Campaigns by their names: what is listed, what is started, and how Ctrl-C ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance import campaign
from conformance.campaign import CAMPAIGNS, Campaign, Program, Suite
from harness.waiting import until

TIDY = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path("{begun}").write_text(str(child.pid))
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.5)
    pathlib.Path("{ended}").touch()
"""
"""Stops slowly after an interruption, and leaves a child in a session of its own."""
INTERRUPTIBLE = "import sys; from conformance.campaign import run; run([[sys.executable, '-c', sys.argv[1]]])"


def python(text: str) -> list[str]:
    """Returns the command line that runs this text."""
    return [sys.executable, "-c", text]


def planted(monkeypatch: pytest.MonkeyPatch, *commands: Suite | Program) -> list[list[str]]:
    """Plants a campaign ``some`` of these commands; returns the list of command lines, which it records instead of
    running.
    """
    ran: list[list[str]] = []

    def code_of(words: Sequence[str]) -> int:
        ran.append([*words])
        return 0

    monkeypatch.setitem(campaign.CAMPAIGNS, "some", Campaign("something", 1, commands))
    monkeypatch.setattr(campaign, "code_of", code_of)
    return ran


@pytest.mark.parametrize("arguments", [[], ["kill"], ["nothing-like-it"]])
def test_without_a_known_name_every_campaign_is_listed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert campaign.main(arguments) == 2
    told = capsys.readouterr().err
    for name, each in CAMPAIGNS.items():
        assert any({name, *each.takes().split()} <= {*line.split()} and each.what in line for line in told.splitlines())
    assert ("did you mean 'kills'?" in told) == (arguments == ["kill"])


def test_a_line_of_the_list_says_hours_or_minutes() -> None:
    assert [Campaign("", hours, ()).takes() for hours in (1 / 3, 1, 2.5)] == ["20 min", "1 h", "2.5 h"]


def test_options_are_passed_to_each_command_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = planted(monkeypatch, Suite(("a", "b"), ("b/c",), ("-s",)), Program("p.q", ("--seeds", "1")))
    assert campaign.main(["some", "--help", "-k", "x y", "--"]) == 0
    limits = ["-o", "faulthandler_timeout=0"]
    options = ["--help", "-k", "x y", "--"]
    assert ran == [
        [sys.executable, "-m", "pytest", "-m", "campaign", *limits, "-s", "a", "b", "--ignore=b/c", *options],
        [sys.executable, "-m", "p.q", "--seeds", "1", *options],
    ]


@pytest.mark.nightly
def test_all_commands_run_and_the_first_failure_is_the_exit_code(tmp_path: Path) -> None:
    last = tmp_path / "last"
    killed = python("import os; os.kill(os.getpid(), 9)")
    touched = python(f"open({str(last)!r}, 'w')")
    assert campaign.run([python(""), python("exit(7)"), python("exit(8)"), touched]) == 7
    assert last.exists()
    assert campaign.run([killed]) == 128 + signal.SIGKILL
    assert campaign.run([python("")]) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_waits_until_the_command_has_stopped_and_leaves_no_process(
    tmp_path: Path, kind: signal.Signals
) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    words = [*python(INTERRUPTIBLE), TIDY.format(begun=begun, ended=ended)]
    runner = subprocess.Popen(words, cwd=campaign.ROOT, stderr=subprocess.PIPE, text=True)
    until(lambda: begun.exists() and begun.read_text(), "the command to begin")
    for _ in range(3):  # tox and timeout(1) repeat the signal.
        runner.send_signal(kind)
        time.sleep(0.1)
    told = runner.communicate(timeout=60)[1]
    assert ended.exists(), told
    assert runner.returncode != 0
    assert not is_alive(int(begun.read_text()))


@pytest.mark.nightly
def test_a_command_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "GRACE_S", 0.2)
    begun = tmp_path / "begun"
    stubborn = python(
        "import os, pathlib, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        f"pathlib.Path({str(begun)!r}).write_text(str(os.getpid())); os.kill(os.getppid(), signal.SIGINT);"
        "time.sleep(600)"
    )
    with pytest.raises(KeyboardInterrupt):
        campaign.run([stubborn])
    assert not is_alive(int(begun.read_text()))


def is_alive(pid: int) -> bool:
    """Returns whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
