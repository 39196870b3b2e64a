"""``pybroker.run()``: the broker is ready when the block begins, and nothing remains after the block."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pybroker
from pybroker.embedded import BrokerFailed
from pybroker.tests.waiting import until
from pyclient import Admin
from pyclient.admin.types import ConfigResource, ResourceType

pytestmark = pytest.mark.nightly

INTERRUPTED = """
import os, pybroker, time
from pyclient import Admin
from pyclient.admin.types import ConfigResource, ResourceType
with pybroker.run() as broker:
    try:
        print("waiting", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    input()
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics("t")
        print(sorted(admin.list_topics()))
    print(os.getsid(broker.pid) == os.getsid(0))
"""

KILLED = """
import os, pybroker, time
with pybroker.run() as broker:
    if {fork} and os.fork() == 0:
        os.closerange(1, 3)
        time.sleep(30)  # a fork holds all pipes of its parent open
    print(broker.pid, broker.data_dir, flush=True)
    time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_an_embedded_broker_is_ready_on_entry_and_leaves_nothing_on_exit() -> None:
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


def test_an_unknown_key_is_reported_as_the_caller_wrote_it() -> None:
    with pytest.raises(BrokerFailed, match=r"foo is unknown \(from an argument of pybroker\.run\(\)\)"):
        pybroker.run(foo=1).__enter__()


def test_a_folder_of_ones_own_is_kept(tmp_path: Path) -> None:
    with pybroker.run(data_dir=tmp_path, num_partitions=3):
        pass
    assert (tmp_path / "broker-1" / "meta.properties").exists()


def test_a_script_inside_a_clone_that_is_not_built_gets_the_installed_broker(tmp_path: Path) -> None:
    package = Path(pybroker.__file__).parent
    for name in ("cy", "pybroker", "pyclient"):
        shutil.copytree(package.parent / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "tests"))
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
        with pytest.raises(BrokerFailed) as caught, pybroker.run(port=port):
            pytest.fail("not reached")
    taken_text = f"port {port} on 127.0.0.1 is taken: choose another port=, or port=0 for a free one"
    assert str(caught.value) == f"the broker did not start (exit code 2): {taken_text}"
    assert "data folder" in caught.value.log


def test_variables_that_configure_another_broker_do_not_reach_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a test would write to another cluster, or into another folder."""
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://localhost:9092")
    monkeypatch.setenv("KAFKA_LOG_DIRS", str(elsewhere))
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
    with pybroker.run() as broker, Admin(broker.bootstrap_servers) as admin:
        told = [f"{node.host}:{node.port}" for node in admin.describe_cluster().brokers]
        assert told == [broker.bootstrap_servers]
        assert "KAFKA_" not in broker.log
    assert not elsewhere.exists()


def test_a_group_forms_without_the_delay_in_which_others_may_join() -> None:
    def delay(broker: pybroker.EmbeddedBroker) -> str:
        with Admin(broker.bootstrap_servers) as admin:
            found = admin.describe_configs(ConfigResource(ResourceType.BROKER, "1"))
        (entries,) = found.values()
        return str(entries["group.initial.rebalance.delay.ms"].value)

    with pybroker.run() as broker:
        assert delay(broker) == "0"
    with pybroker.run(group_initial_rebalance_delay_ms=7) as broker:
        assert delay(broker) == "7"


def test_without_a_block_it_runs_until_it_is_closed_and_its_log_outlives_it() -> None:
    broker = pybroker.run()
    assert is_alive(broker.pid)
    broker.close()
    assert not is_alive(broker.pid)
    assert not broker.data_dir.exists()
    assert "stopped" in broker.log
    broker.close()  # once more does nothing
    with pytest.raises(RuntimeError, match="not running"):
        broker.pause()
    with broker.start():
        assert is_alive(broker.pid)


def test_a_broker_that_was_not_started_says_so() -> None:
    broker = pybroker.EmbeddedBroker()
    with pytest.raises(RuntimeError, match="not started yet"):
        print(broker.bootstrap_servers)
    assert repr(broker) == "<pybroker.EmbeddedBroker not started, not running>"


def test_an_unreferenced_broker_ends() -> None:
    broker = pybroker.run()
    pid, folder = broker.pid, broker.data_dir
    del broker
    gc.collect()
    until(lambda: not is_alive(pid) and not folder.exists())


def test_the_error_of_a_failed_start_has_the_brokers_log() -> None:
    with pytest.raises(pybroker.BrokerFailed) as caught:
        pybroker.run(log_segment_bytes=1)
    assert "log.segment.bytes=1 is below" in caught.value.log
    assert pickle.loads(pickle.dumps(caught.value)).log == caught.value.log


def test_an_event_loop_starts_and_stops_a_broker_without_blocking() -> None:
    async def turns() -> tuple[int, int]:
        count = 0

        async def turn() -> None:
            nonlocal count
            while True:
                await asyncio.sleep(0)
                count += 1

        turning = asyncio.ensure_future(turn())
        async with pybroker.EmbeddedBroker() as broker:
            assert count > 1
            assert is_alive(broker.pid)
        turning.cancel()
        return broker.pid, count

    pid, _ = asyncio.run(turns())
    assert not is_alive(pid)


def test_an_interrupt_of_the_whole_process_group_leaves_the_broker_alone() -> None:
    """Ctrl-C in a terminal sends this interrupt, and so does a notebook whose cell is interrupted."""
    owner = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    assert owner.stdout.readline() == "waiting\n"
    os.killpg(owner.pid, signal.SIGINT)
    assert owner.stdout.readline() == "interrupted\n"
    out, _ = owner.communicate("go on\n", timeout=60)
    assert (owner.returncode, out) == (0, "['t']\nFalse\n"), "what runs, and whether it shares our session"


def test_every_exported_name_exists() -> None:
    assert {name for name in pybroker.__all__ if getattr(pybroker, name, None) is None} == set()
    assert re.match(r"\d+\.\d+", pybroker.__version__)
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        pybroker.runn()  # type: ignore[attr-defined]


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


def test_a_start_that_takes_too_long_says_so() -> None:
    with pytest.raises(BrokerFailed, match=r"not ready within start_timeout_s=0\.001; raise it if a start takes"):
        pybroker.run(start_timeout_s=0.001)
