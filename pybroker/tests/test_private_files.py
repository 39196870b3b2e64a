"""Only the broker's user can read data and secrets, with any umask and with any files that existed before."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.data_folder import close_to_others
from pybroker.tests.processes import broker, fleet
from pyclient import Admin, Producer


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    paths = [folder, *folder.rglob("*")]
    return [str(path) for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]


def write_something(port: int) -> None:
    with Admin(f"127.0.0.1:{port}") as admin:
        admin.create_topics("t", num_partitions=2)
    with Producer(f"127.0.0.1:{port}") as producer:
        producer.send("t", value=b"v").result(timeout=30)


@pytest.mark.nightly
def test_all_files_of_a_broker_are_private_while_it_runs_and_after_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(data) as running:
        write_something(running.port)
        assert open_to_others(data) == []
        running.stop(signal.SIGKILL)
    assert open_to_others(data) == []
    assert (data / "coordination.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.nightly
def test_all_files_of_several_brokers_are_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with fleet(data, "--processes", 2) as running:
        write_something(running.port)
        assert open_to_others(data) == []
        assert running.stop().code == 0
    assert open_to_others(data) == []


@pytest.mark.nightly
def test_a_start_reports_and_tightens_loose_file_modes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(data) as running:
        write_something(running.port)
        running.stop()
    for path in [data, *data.rglob("*")]:
        path.chmod(0o755)
    with broker(data) as running:
        assert open_to_others(data) == []
        ended = running.stop()
    assert f"{data}: " in ended.err
    assert "were open to other users" in ended.err
    with broker(data) as running:
        assert "open to other users" not in running.stop().err


def test_foreign_files_in_a_data_folder_stay_unchanged(tmp_path: Path) -> None:
    foreign = tmp_path / "photos"
    foreign.mkdir()
    own = tmp_path / "broker-1" / "t-0"
    own.mkdir(parents=True)
    tmp_path.chmod(0o755)
    close_to_others(tmp_path)
    assert own.stat().st_mode & 0o777 == 0o700
    assert foreign.stat().st_mode & 0o777 == 0o777
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    shutil.rmtree(foreign)
    close_to_others(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700
