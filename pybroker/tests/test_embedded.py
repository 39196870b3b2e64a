"""``pybroker.run()``: ready when entered, nothing left when left, however it is left."""

from __future__ import annotations

import os
import shutil
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


def test_a_key_that_is_unknown_is_told_in_the_callers_words() -> None:
    with pytest.raises(BrokerFailed, match=r"foo is unknown \(from an argument of pybroker\.run\(\)\)"):
        pybroker.run(foo=1).__enter__()


def test_a_folder_of_ones_own_is_kept(tmp_path: Path) -> None:
    with pybroker.run(data_dir=tmp_path, num_partitions=3):
        pass
    assert (tmp_path / "broker-1" / "meta.properties").exists()


def test_a_script_inside_a_clone_that_is_not_built_gets_the_installed_broker(tmp_path: Path) -> None:
    package = Path(pybroker.__file__).parent
    for name in ("pybroker/__init__.py", "pybroker/embedded.py", "cy/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(package.parent / name, tmp_path / name)
    script = tmp_path / "script.py"
    script.write_text("import pybroker\nwith pybroker.run(): print(pybroker.__file__)\n")
    ended = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        check=False,
    )
    assert ended.stdout == f"{tmp_path}/pybroker/__init__.py\n", ended.stderr


def test_a_port_can_be_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerFailed, match=f"port {port} on 127.0.0.1 is taken"), pybroker.run(port=port):
            pytest.fail("not reached")


def test_variables_that_clients_use_do_not_hinder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
    with pybroker.run() as broker:
        assert "KAFKA_BOOTSTRAP_SERVERS is ignored" in broker.log


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
