"""``pybroker.run()``: ready when entered, nothing left when left, however it is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import pybroker
from pybroker.embedded import BrokerFailed

KILLED = """
import os, pybroker, time
with pybroker.run() as broker:
    if {fork} and os.fork() == 0:
        os.closerange(1, 3)
        time.sleep(30)  # a fork holds all pipes of its parent open
    print(broker.pid, broker.data_dir, flush=True)
    time.sleep(60)
"""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_is_ready_when_entered_and_nothing_is_left_when_left() -> None:
    with pybroker.run() as broker:
        host, port = broker.bootstrap_servers.split(":")
        socket.create_connection((host, int(port))).close()
        assert broker.data_dir.exists()
        assert is_alive(broker.pid)
        assert "data folder" in broker.log
    assert not broker.data_dir.exists()
    assert not is_alive(broker.pid)


def test_settings_are_kafkas_with_underscores() -> None:
    with (
        pytest.raises(BrokerFailed, match=r"log\.segment\.bytes=1 is below"),
        pybroker.run(log_segment_bytes=1),
    ):
        pytest.fail("not reached")


def test_a_folder_of_ones_own_is_kept(tmp_path: Path) -> None:
    with pybroker.run(data_dir=tmp_path, num_partitions=3):
        pass
    assert (tmp_path / "broker-1" / "meta.properties").exists()


def test_leaving_by_an_exception_stops_the_broker() -> None:
    with pytest.raises(KeyError), pybroker.run() as broker:
        raise KeyError
    assert not is_alive(broker.pid)
    assert not broker.data_dir.exists()


@pytest.mark.parametrize("fork", [False, True])
def test_nothing_is_left_when_the_process_is_killed(fork: bool) -> None:
    script = KILLED.format(fork=fork)
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid_text, folder = owner.stdout.readline().split()
    pid = int(pid_text)
    assert is_alive(pid)
    children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    until(lambda: not is_alive(pid) and not Path(folder).exists())
    for child in children:
        if int(child) != pid and is_alive(int(child)):
            os.kill(int(child), signal.SIGKILL)
