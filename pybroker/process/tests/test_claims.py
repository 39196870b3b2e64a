"""A refused start changes nothing in the folder of the broker that runs there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker import data_folder
from pybroker.config import BrokerConfig
from pybroker.data_folder import FolderInUse, Locks
from pybroker.process.start_options import StartOptions
from pybroker.process.supervisor import claimed


@pytest.mark.parametrize("temporary", [False, True])
def test_a_refused_second_start_leaves_the_pid_file_and_the_folder(tmp_path: Path, temporary: bool) -> None:
    folder, config = data_folder.plan(str(tmp_path), 1, ()), BrokerConfig.load([], {})
    options = StartOptions(data_dir=str(tmp_path), temporary=temporary)
    running = Locks()
    folder.create()
    running.take(tmp_path)
    folder.write_pid()
    with pytest.raises(FolderInUse), claimed(folder, options, config):
        pass
    running.release()
    assert (folder.broker / data_folder.PID).exists()


def test_the_pid_file_is_removed_when_the_broker_ends(tmp_path: Path) -> None:
    folder, config = data_folder.plan(str(tmp_path), 1, ()), BrokerConfig.load([], {})
    with claimed(folder, StartOptions(data_dir=str(tmp_path)), config):
        assert (folder.broker / data_folder.PID).exists()
        assert (tmp_path / data_folder.LOCK).read_text() == f"{os.getpid()}\n"
    assert not (folder.broker / data_folder.PID).exists()
    assert (tmp_path / data_folder.LOCK).read_text() == ""
