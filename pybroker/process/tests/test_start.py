"""The start command: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from pybroker.tests.processes import broker, run

pytestmark = pytest.mark.nightly

QUICKLY = ("--set", "zookeeper.connection.timeout.ms=300")


def one_line(text: str) -> str:
    """Returns the only line of stderr that is not a log line."""
    lines = [line for line in text.splitlines() if not line[:4].isdigit()]
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_that_a_signal_stops_exits_0_and_prints_only_the_ready_line(tmp_path: Path, number: int) -> None:
    with broker(tmp_path) as running:
        socket.create_connection(("127.0.0.1", running.port)).close()
        ended = running.stop(number)
    assert ended.code == 0
    assert ended.out == ""
    assert str(tmp_path) in ended.err
    assert "Traceback" not in ended.err


def test_the_pid_file_exists_while_the_broker_runs(tmp_path: Path) -> None:
    with broker(tmp_path, "--node-id", 7) as running:
        pid = tmp_path / "broker-7" / "pid"
        assert pid.read_text() == f"{running.pid}\n"
        running.stop()
    assert not pid.exists()


def test_a_broker_restarts_on_its_data_folder_after_a_kill_or_a_stop(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        running.stop(signal.SIGKILL)
    with broker(tmp_path) as running:
        assert running.stop().code == 0
    with broker(tmp_path) as running:
        assert running.stop().code == 0


def test_the_error_for_a_data_folder_in_use_names_the_process_that_uses_it(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        ended = run("--port", 0, "--data-dir", tmp_path)
        assert ended.code == 2
        assert ended.out == ""
        line = one_line(ended.err)
        assert f"data folder {tmp_path} is in use by process {running.pid}" in line
        assert "--data-dir" in line


def test_the_error_for_a_port_in_use_suggests_port_0(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("--port", port, "--data-dir", tmp_path)
    assert ended.code == 2
    assert f"port {port} on 127.0.0.1 is taken" in one_line(ended.err)
    assert "--port 0" in one_line(ended.err)


def test_a_failed_start_leaves_no_new_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("--port", port, "--data-dir", tmp_path / "new", "--set", f"log.dirs={tmp_path}/a,{tmp_path}/b")
        assert ended.code == 2
    assert list(tmp_path.iterdir()) == []
    kept = tmp_path / "kept"
    kept.mkdir()
    assert run("--port", 0, "--data-dir", kept, "--zookeeper", "127.0.0.1:1", *QUICKLY).code == 2
    assert kept.exists(), "it was there before"


def test_a_data_folder_of_another_node_id_is_refused(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        running.stop()
    (tmp_path / "broker-1").rename(tmp_path / "broker-2")
    ended = run("--port", 0, "--data-dir", tmp_path, "--node-id", 2)
    assert ended.code == 2
    assert "belongs to node 1, this is 2" in one_line(ended.err)
    assert "--node-id 1" in one_line(ended.err)


def test_a_data_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with broker(tmp_path / name) as running:
            running.stop()
    (tmp_path / "one" / "broker-1").rename(tmp_path / "two" / "broker-3")
    ended = run("--port", 0, "--data-dir", tmp_path / "two", "--node-id", 3)
    assert ended.code == 2
    assert "cluster" in one_line(ended.err)
    assert "--data-dir" in one_line(ended.err)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--set", "log.segment.byte=1"), "did you mean log.segment.bytes?"),
        (("--set", "log.segment.bytes=12"), "log.segment.bytes=12 is below"),
        (("--set", "log.segment.bytes"), "key=value"),
        (("--set", "listeners=PLAINTEXT//x"), "NAME://host:port"),
        (("--port", "70000"), "--port"),
        (("--prot", "1"), "--port"),
        (("--processes", "0"), "--processes"),
        (("--zookeeper", "localhost:port"), "--zookeeper"),
        (("--zookeeper", "127.0.0.1:1/a", "--set", "zookeeper.connection.timeout.ms=200"), "no answer for 0.2 s"),
        (("no-such.properties",), "no-such.properties"),
        (("--host", "203.0.113.7"), "203.0.113.7"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_2(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    port = () if "--port" in arguments else ("--port", 0)
    ended = run("--data-dir", tmp_path / "data", *port, *arguments)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert told in one_line(ended.err)


def test_the_error_for_a_data_folder_that_is_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run("--port", 0, "--data-dir", tmp_path / "file")
    assert ended.code == 2
    assert "it is a file, not a folder: choose another --data-dir" in one_line(ended.err)


def test_the_error_for_a_data_folder_that_cannot_be_created_names_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run("--port", 0, "--data-dir", tmp_path / "file" / "data")
    assert ended.code == 2
    assert "--data-dir" in one_line(ended.err)


@pytest.mark.parametrize("more", [(), ("--processes", 2)])
def test_the_error_for_a_log_dir_that_cannot_be_created_names_its_line_in_the_file(
    tmp_path: Path, more: tuple[object]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("\nlog.dirs=/proc/nope\n")
    line = one_line(run(file, "--port", 0, *more).err)
    assert f"log dir /proc/nope: No such file or directory: change log.dirs (from {file}:2)" in line


def test_the_error_for_an_invalid_listener_names_its_line_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    for text, words in (("SASL_SSL://:9393", "listener SASL_SSL"), ("://x", "is not of the form")):
        file.write_text(f"\nlisteners={text}\n")
        line = one_line(run(file, "--data-dir", tmp_path).err)
        assert f"(from {file}:2)" in line
        assert words in line


def test_an_option_overrides_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.segment.bytes=1\nnum.partitions=1\nlog.retention.ms=5\n")
    env = {"KAFKA_LOG_SEGMENT_BYTES": "2"}
    ended = run(file, "--data-dir", tmp_path / "d", "--set", "log.segment.bytes=3", env=env)
    assert "log.segment.bytes=3" in ended.err
    ended = run(file, "--data-dir", tmp_path / "d", env=env)
    assert "log.segment.bytes=2" in ended.err
    ended = run("start", file, "--data-dir", tmp_path / "d")
    assert "log.segment.bytes=1" in ended.err


def test_a_broker_started_from_kafkas_server_properties_uses_their_log_dirs(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    logs = tmp_path / "kafka-logs"
    file.write_text(f"broker.id=5\nlisteners=PLAINTEXT://127.0.0.1:9\nlog.dirs={logs}\n")
    with broker(tmp_path / "data", file) as running:
        running.stop()
    assert (logs / "meta.properties").exists()
    assert "node.id=5" in (logs / "meta.properties").read_text()
    assert (tmp_path / "data" / "coordination.db").exists()


def test_a_broker_starts_from_a_vendors_file_and_logs_each_key_without_effect_once(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\nzookeeper.connect=127.0.0.1:1\n"
        "confluent.balancer.enable=true\nmetric.reporters=io.confluent.Reporter\n"
    )
    with broker(tmp_path / "data", file, env={"CLUSTER_ID": "x", "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN"}) as running:
        ended = running.stop()
    assert ended.code == 0
    for name in ("confluent.balancer.enable", "metric.reporters", "zookeeper.connect=127.0.0.1:1", "CLUSTER_ID"):
        assert sum(name in line for line in ended.err.splitlines()) == 1
    assert "INFO" not in ended.err, "KAFKA_LOG4J_ROOT_LOGLEVEL says what is logged"


def test_a_file_with_an_unsupported_authorizer_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("authorizer.class.name=org.apache.ranger.RangerKafkaAuthorizer\n")
    ended = run(file, "--port", 0, "--data-dir", tmp_path / "data")
    assert ended.code == 2
    assert f"authorizer.class.name=org.apache.ranger.RangerKafkaAuthorizer (from {file}:1)" in ended.err
    assert "no such authorizer" in one_line(ended.err)
    assert not (tmp_path / "data").exists()


def test_a_start_without_data_dir_uses_the_users_data_folder_and_prints_it(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    ended = run("--host", "203.0.113.7", "--log-level", "info", env=env)
    assert ended.code == 2
    assert f"data folder {tmp_path}/" in ended.err
    assert not any(tmp_path.rglob("broker-1")), "it has not started"


def test_version_and_help_are_printed_to_stdout() -> None:
    assert run("--version").out.startswith("pybroker ")
    assert "--data-dir" in run("start", "--help").out
    assert "start" in run("--help").out


def test_an_embedded_broker_whose_stdin_ends_during_the_start_exits_0(tmp_path: Path) -> None:
    """The broker is embedded, and its stdin has ended already."""
    ended = run("--port", 0, "--data-dir", tmp_path, "--embedded")
    assert ended.code == 0


def test_log_dirs_in_use_by_another_broker_are_refused(tmp_path: Path) -> None:
    setting = f"log.dirs={tmp_path / 'logs'}"
    with broker(tmp_path / "one", "--set", setting):
        ended = run("--port", 0, "--data-dir", tmp_path / "two", "--set", setting)
    assert ended.code == 2
    assert f"{tmp_path / 'logs'} is in use" in one_line(ended.err)


def test_a_listener_on_all_addresses_is_announced_with_an_address_that_clients_reach(
    tmp_path: Path,
) -> None:
    with broker(tmp_path, "--host", "") as running:
        socket.create_connection(("127.0.0.1", running.port)).close()
        assert os.getpgid(running.pid)
        running.stop()
