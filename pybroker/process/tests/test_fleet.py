"""``--processes N``: brokers that share a store, a folder and a supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from harness.servers.clusters import consecutive_ports
from harness.servers.ensemble import Ensemble
from pybroker.config import BrokerConfig
from pybroker.process.start_options import replicated
from pybroker.process.tests.test_start import one_line
from pybroker.tests.processes import DEADLINE_S, broker, fleet, is_alive, run, started
from pybroker.tests.waiting import until
from pyclient import Admin, NewTopic
from pyclient.admin import ConfigResource, ResourceType

pytestmark = pytest.mark.nightly

QUICK = ("--restart-delay", "0.1")


def pid_of(folder: Path, node_id: int) -> int:
    """Returns the process id in the pid file, 0 if there is no file."""
    try:
        return int((folder / f"broker-{node_id}" / "pid").read_text())
    except FileNotFoundError:
        return 0


def answers(port: int) -> bool:
    """Returns whether a process listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def brokers(port: int) -> list[int]:
    """Returns the registered brokers that the broker on this port knows."""
    with Admin(f"127.0.0.1:{port}") as admin:
        return sorted(each.id for each in admin.describe_cluster().brokers)


def test_one_ready_line_names_every_broker_and_a_stop_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    port = consecutive_ports(3)
    with fleet(tmp_path, "--processes", 3, "--node-id", 4, "--port", port) as running:
        assert running.ports == [port, port + 1, port + 2]
        assert [pid_of(tmp_path, node_id) for node_id in (4, 5, 6)] == running.pids
        assert len(set(running.pids) | {running.pid}) == 4
        assert all(map(answers, running.ports))
        ended = running.stop()
        assert ended.code == 0
        assert ended.out == ""
        assert "Traceback" not in ended.err
        assert not any(map(is_alive, running.pids))
    assert not any(map(answers, running.ports))
    assert [path.name for path in tmp_path.rglob("pid")] == []
    assert not (tmp_path / "store.sock").exists()


def test_a_broker_that_has_ended_is_restarted_on_its_port(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2, *QUICK) as running:
        for node_id, number in ((1, signal.SIGKILL), (2, signal.SIGTERM)):
            os.kill(running.pids[node_id - 1], number)
        for node_id, pid, port in zip((1, 2), running.pids, running.ports, strict=True):
            until(lambda node_id=node_id, pid=pid: pid_of(tmp_path, node_id) not in (0, pid))
            until(lambda port=port: answers(port))
        ended = running.stop()
    assert ended.code == 0
    assert "broker 1 has ended by SIGKILL; starting it again in 0.1 s" in ended.err
    assert "broker 2 has ended; starting it again in 0 s" in ended.err, "it was asked to"


def test_a_broker_that_a_real_time_signal_ended_is_restarted(tmp_path: Path) -> None:
    number = signal.SIGRTMIN + 3
    with fleet(tmp_path, "--processes", 2, *QUICK) as running:
        os.kill(running.pids[0], number)
        until(lambda: pid_of(tmp_path, 1) not in (0, running.pids[0]))
        until(lambda: answers(running.ports[0]))
        ended = running.stop()
    assert ended.code == 0
    assert f"broker 1 has ended by signal {number}; starting it again" in ended.err


def test_a_new_supervisor_waits_for_the_brokers_of_a_killed_one_and_accepts_the_joined_broker(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2) as running, broker(tmp_path, "--join", "--node-id", 3) as joined:
        running.process.kill()
        running.process.wait()
        with fleet(tmp_path, "--processes", 2) as next_one:
            assert not any(map(is_alive, running.pids))
            until(lambda: brokers(next_one.port) == [1, 2, 3])
            assert joined.stop().code == 0
            assert next_one.stop().code == 0


def test_a_broker_killed_during_its_start_is_restarted(tmp_path: Path) -> None:
    with started(tmp_path, "--processes", 2, *QUICK) as process:
        until(lambda: pid_of(tmp_path, 1) != 0)
        os.kill(pid_of(tmp_path, 1), signal.SIGKILL)
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("pybroker ready: ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0


SITE = """
import os, sys, threading, time

def chatter():
    time.sleep(2)
    for _ in range(10):
        print("more" * 10_000, flush=True)
    open(f"HERE/said-{os.getpid()}", "w")

if "--member" in sys.orig_argv:
    print("x" * 100_000)
    print("hello from the site")
    threading.Thread(target=chatter, daemon=True).start()
"""


def test_other_output_of_a_broker_is_logged_and_its_messages_still_arrive(tmp_path: Path) -> None:
    """Also after its first message, and if the output exceeds a pipe's buffer."""
    (tmp_path / "sitecustomize.py").write_text(SITE.replace("HERE", str(tmp_path)))
    with fleet(tmp_path / "data", "--processes", 2, env={"PYTHONPATH": str(tmp_path)}) as running:
        until(lambda: len(list(tmp_path.glob("said-*"))) == 2)
        ended = running.stop()
    assert ended.code == 0
    assert ended.err.count("says b'hello from the site\\n'") == 2
    assert ended.err.count("says b'moremore") == 20


def test_a_port_in_use_of_one_broker_is_reported_and_ends_all_brokers(tmp_path: Path) -> None:
    port = consecutive_ports(2)
    with socket.create_server(("127.0.0.1", port + 1)):
        ended = run("--port", port, "--data-dir", tmp_path, "--processes", 2)
    assert ended.code == 2
    assert ended.out == ""
    assert f"port {port + 1} on 127.0.0.1 is taken" in one_line(ended.err)
    # A broker that is stopped before it handles signals cannot remove its file.
    assert not any(is_alive(int(path.read_text())) for path in tmp_path.rglob("pid"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--port", 65535), "--port"),
        (("--set", "log.segment.bytes=12"), "log.segment.bytes=12 is below"),
    ],
)
def test_wrong_usage_prints_one_line_before_any_broker_starts(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    ended = run("--data-dir", tmp_path / "data", "--processes", 2, *arguments)
    assert ended.code == 2, ended
    assert told in one_line(ended.err)
    assert not (tmp_path / "data").exists()


def test_another_start_on_the_data_folder_of_running_brokers_is_refused(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2) as running:
        for arguments in (("--processes", 2), ("--node-id", 2)):
            ended = run("--port", 0, "--data-dir", tmp_path, *arguments)
            assert ended.code == 2
            assert f"in use by process {running.pid}" in one_line(ended.err)


def test_a_broker_joins_and_leaves_the_cluster_of_a_data_folder(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2) as running:
        with broker(tmp_path, "--join", "--node-id", 3) as joined:
            assert brokers(running.port) == [1, 2, 3]
            assert joined.stop().code == 0
        until(lambda: brokers(running.port) == [1, 2])
        ended = run("--port", 0, "--data-dir", tmp_path, "--join", "--node-id", 2)
        assert f"broker-2 is in use by process {running.pids[1]}" in one_line(ended.err)
        assert "choose another --node-id" in ended.err
        running.stop()
    ended = run("--port", 0, "--data-dir", tmp_path, "--join", "--node-id", 3)
    assert ended.code == 2
    why = "store.sock: No such file or directory: `pybroker start --processes` is not running here"
    assert why in one_line(ended.err)


def test_another_broker_cannot_take_the_folder_of_one_that_will_be_restarted(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2, "--restart-delay", 60) as running:
        os.kill(running.pids[1], signal.SIGKILL)
        until(lambda: not is_alive(running.pids[1]))
        ended = run("--port", 0, "--data-dir", tmp_path, "--join", "--node-id", 2)
        assert ended.code == 2
        assert f"broker-2 is in use by process {running.pid}" in one_line(ended.err)
        assert "--node-id" in one_line(ended.err)
        assert running.stop().code == 0


def test_a_joining_broker_has_the_settings_of_the_cluster_and_its_own(tmp_path: Path) -> None:
    shared = ("--set", "min.insync.replicas=2", "--set", "log.retention.hours=7", "--set", "broker.rack=a")
    own = ("--join", "--node-id", 3, "--set", "log.retention.hours=8")
    three = ConfigResource(ResourceType.BROKER, "3")
    with (
        fleet(tmp_path, "--processes", 2, *shared) as running,
        broker(tmp_path, *own),
        Admin(f"127.0.0.1:{running.port}") as admin,
    ):
        found = admin.describe_configs(three)[three]
    named = ("min.insync.replicas", "log.retention.hours", "broker.rack")
    assert [found[name].value for name in named] == ["2", "8", None]


def test_several_joining_brokers_have_the_settings_of_the_cluster_without_its_secrets(tmp_path: Path) -> None:
    four = ConfigResource(ResourceType.BROKER, "4")
    shared = ("--set", "min.insync.replicas=2", "--set", "ssl.keystore.password=secret")
    with (
        fleet(tmp_path, "--processes", 2, *shared) as running,
        fleet(tmp_path, "--join", "--node-id", 3, "--processes", 2),
        Admin(f"127.0.0.1:{running.port}") as admin,
    ):
        assert admin.describe_configs(four)[four]["min.insync.replicas"].value == "2"
    assert "secret" not in (tmp_path / "cluster.properties").read_text()


def test_a_rolling_restart_restarts_each_broker_of_the_supervisor_once(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2, *QUICK) as running:
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in running.ports)
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic("t", 4, 2)])
        restart = ("cluster", "restart", "--data-dir", tmp_path)
        with broker(tmp_path / "another") as other:
            ended = run(*restart, "-b", f"127.0.0.1:{other.port}")
        assert ended.code == 1
        assert "-b names the brokers of the folder" in one_line(ended.err)
        with broker(tmp_path, "--join", "--node-id", 3):
            ended = run(*restart, "-b", bootstrap)
        assert ended.code == 0, ended
        *told, last = ended.err.splitlines()
        assert sorted(line.partition(":")[0] for line in told) == ["broker 1", "broker 2"]
        assert last.startswith("broker 3 was left as it is")
        assert last.endswith("Stop it and run its own command again")
        assert not {pid_of(tmp_path, 1), pid_of(tmp_path, 2)} & {0, *running.pids}
        with Admin(bootstrap) as admin:
            partitions = admin.describe_topics("t")["t"].partitions
            assert all(len(each.isr) == 2 for each in partitions)
            assert [each.leader for each in partitions] == [each.replicas[0] for each in partitions]
        log = running.stop().err
    ends = [line for line in log.splitlines() if "starting it again" in line]
    assert len(ends) == 2
    with broker(tmp_path) as alone:
        ended = run(*restart, "-b", f"127.0.0.1:{alone.port}")
    assert ended.code == 1
    assert "has a single broker" in ended.err


def test_several_brokers_start_on_the_data_folder_of_a_single_one(tmp_path: Path) -> None:
    with broker(tmp_path) as alone:
        alone.stop()
    identity = (tmp_path / "broker-1" / "meta.properties").read_text()
    with fleet(tmp_path, "--processes", 2) as running:
        running.stop()
    assert (tmp_path / "broker-1" / "meta.properties").read_text() == identity


def test_log_dirs_have_a_folder_for_each_broker_and_a_stop_ends_a_halted_broker(tmp_path: Path) -> None:
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
    with fleet(tmp_path / "data", "--processes", 2, "--set", dirs) as running:
        os.kill(running.pids[0], signal.SIGSTOP)
        assert running.stop().code == 0
    for name in ("a/broker-1", "a/broker-2", "b/broker-1", "b/broker-2"):
        assert (tmp_path / name / "meta.properties").exists()


def test_embedded_brokers_whose_stdin_ends_during_the_start_exit_0(tmp_path: Path) -> None:
    """The brokers are embedded, and their stdin has ended already."""
    ended = run("--port", 0, "--data-dir", tmp_path, "--processes", 2, "--embedded")
    assert ended.code == 0
    assert ended.out == ""


def test_embedded_brokers_and_their_folder_vanish_when_their_owner_is_killed() -> None:
    script = "import pybroker, time\nwith pybroker.run(2) as b: print(*b.pids, b.data_dir, flush=True); time.sleep(60)"
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    first, second, folder = owner.stdout.readline().split()
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(lambda: not is_alive(int(first)) and not is_alive(int(second)) and not Path(folder).exists())


def test_brokers_are_registered_in_zookeeper_in_kafkas_format(tmp_path: Path) -> None:
    with Ensemble(tmp_path) as zookeeper:
        place = ("--zookeeper", f"{zookeeper.hosts}/kafka", "--set", "zookeeper.session.timeout.ms=3000")
        with fleet(tmp_path / "data", "--processes", 2, *QUICK, *place) as running:
            client = KazooClient(f"{zookeeper.hosts}/kafka")
            client.start()
            assert sorted(client.get_children("/brokers/ids")) == ["1", "2"]
            before = client.get("/brokers/ids/2")[1].czxid
            registered = json.loads(client.get("/brokers/ids/2")[0])
            assert registered["endpoints"] == [f"PLAINTEXT://127.0.0.1:{running.ports[1]}"]
            assert json.loads(client.get("/controller")[0])["brokerid"] in (1, 2)
            os.kill(running.pids[1], signal.SIGKILL)
            until(lambda: pid_of(tmp_path / "data", 2) not in (0, running.pids[1]) and answers(running.ports[1]))
            assert client.get("/brokers/ids/2")[1].czxid > before
            assert running.stop().code == 0
            assert client.get_children("/brokers/ids") == []
            client.stop()
            client.close()
        assert not (tmp_path / "data" / "coordination.db").exists()


def test_a_client_during_the_start_of_three_brokers_gets_fully_replicated_internal_topics(tmp_path: Path) -> None:
    """Otherwise the replication factor of the topics would stay too small for ever."""
    port = consecutive_ports(3)
    knock = "import sys, pyclient; pyclient.Consumer(sys.argv[1], group_id='g', topics=['t']).poll(60)"
    client = subprocess.Popen([sys.executable, "-c", knock, f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    try:
        with fleet(tmp_path, "--processes", 3, "--port", port) as running, Admin(f"127.0.0.1:{port}") as admin:
            until(lambda: "__consumer_offsets" in admin.list_topics(list_internal=True))
            offsets = admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"]
            assert {len(partition.replicas) for partition in offsets.partitions} == {3}
            assert running.stop().code == 0
    finally:
        client.kill()
        client.wait()


@pytest.mark.parametrize(
    ("processes", "settings", "factors"),
    [
        (3, (), {"3"}),
        (2, (), {"2"}),
        (5, (), {"3"}),
        (2, ("default.replication.factor=3",), {"3"}),
        (3, ("offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1"), set()),
    ],
)
def test_the_replication_factor_of_internal_topics_follows_the_number_of_brokers(
    processes: int, settings: tuple[str, ...], factors: set[str]
) -> None:
    assert set(replicated(BrokerConfig.load(settings), processes).values()) == factors
