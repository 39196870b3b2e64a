"""A signal handler knows the process of an embedded broker from its first moment."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.process.owned_process import OwnedProcess


@pytest.fixture
def owned() -> Iterator[OwnedProcess]:
    process = OwnedProcess()
    yield process
    process.forget()


def test_a_signal_during_the_start_is_handled_once_the_process_is_known(
    owned: OwnedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the handler would run before the process is known, and nobody would end the process."""
    known: list[int | None] = []
    make = subprocess.Popen

    def interrupted(*arguments: Any, **keywords: Any) -> subprocess.Popen[bytes]:
        made = make(*arguments, **keywords)
        os.kill(os.getpid(), signal.SIGTERM)
        return made

    before = signal.signal(signal.SIGTERM, lambda *_: known.append(owned.pid))
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        owned.start(["sleep", "60"], dict(os.environ))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert known == [owned.pid]
    assert owned.is_alive


def test_a_signal_during_folder_creation_is_handled_once_the_folder_is_known(
    owned: OwnedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Path | None] = []
    make = tempfile.mkdtemp

    def interrupted(**keywords: Any) -> str:
        made: str = make(**keywords)
        os.kill(os.getpid(), signal.SIGTERM)
        return made

    before = signal.signal(signal.SIGTERM, lambda *_: found.append(owned.folder))
    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    try:
        folder = owned.make_folder("pybroker-")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert found == [folder]


def test_a_signal_while_python_tries_tmpdir_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: the signal handler of ``pybroker demo`` ended the process, so the file stayed with which Python tests
the folder."""
    left: list[list[Path]] = []
    unlink = os.unlink

    def interrupted(path: Any, *arguments: Any, **keywords: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        unlink(path, *arguments, **keywords)

    before = signal.signal(signal.SIGTERM, lambda *_: left.append(list(tmp_path.iterdir())))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(os, "unlink", interrupted)
    try:
        process = OwnedProcess()
    finally:
        signal.signal(signal.SIGTERM, before)
    monkeypatch.undo()
    process.forget()
    assert left[0] == []
