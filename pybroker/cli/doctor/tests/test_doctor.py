"""The doctor's findings about unreachable addresses, clocks and settings, and about a healthy broker."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker import data_folder
from pybroker.cli.common.verbs import sentence
from pybroker.cli.doctor import cluster, machine, settings
from pybroker.cli.reaching import network
from pybroker.cli.reaching.finding import ERROR, OK, WARNING
from pybroker.cli.reaching.network import Reach
from pybroker.cli.tests.running import Shell
from pyclient.errors import ConnectionFailed

CAME_BY = Reach("kafka.example", 19092, ("10.0.0.1",), 0.001)


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        (Reach("kafka.example", 9092, ("10.0.0.1",), 0.001), OK, ""),
        (Reach("broker-1", 9092, (), 0, "resolve", "Name or service not known"), ERROR, "has no address here"),
        (Reach("localhost", 9092, ("::1",), 0, "connect", "Connection refused"), ERROR, "the machine of each client"),
        (Reach("0.0.0.0", 9092, ("0.0.0.0",), 0, "connect", "Connection refused"), ERROR, "no client can connect"),
        (Reach("172.17.0.2", 9092, ("172.17.0.2",), 0, "connect", "no answer in 3 s"), ERROR, "another network"),
        (Reach("localhost", 9092, ("127.0.0.1",), 0.001), WARNING, "only from this machine"),
    ],
)
def test_an_advertised_address_that_leads_nowhere_is_explained(found: Reach, level: str, words: str) -> None:
    told = network.advertised(7, found, CAME_BY)
    assert (told.level, words in told.found) == (level, True)
    assert (level == OK) == (told.advice == "")
    if level != OK:
        assert "advertised.listeners=PLAINTEXT://kafka.example:19092" in told.advice


def test_for_a_broker_that_is_down_the_advice_is_to_start_it() -> None:
    """Its address is right, because another broker of that machine answers."""
    dead = Reach(CAME_BY.host, CAME_BY.port + 1, CAME_BY.addresses, 0.0, "connect", "Connection refused")
    alone = network.advertised(7, dead, CAME_BY, [dead])
    assert "advertised.listeners" in alone.advice, "it has answered, by an address that it does not give"
    told = network.advertised(7, dead, CAME_BY, [dead, CAME_BY])
    assert told.level == ERROR
    assert "down" in told.found
    assert "start that broker" in told.advice
    assert "advertised.listeners" not in told.advice


def test_two_brokers_with_one_advertised_address_are_reported() -> None:
    assert list(network.other_cluster(7, CAME_BY, "a", "a")) == []
    (told,) = network.other_cluster(7, CAME_BY, "a", "b")
    assert (told.level, told.found) == (ERROR, "cluster b answers there, not a")


@pytest.mark.parametrize(
    ("dated", "level", "words"),
    [(1500, OK, "the same"), (2900, OK, "the same"), (9000, WARNING, "7.0 s ahead"), (-4000, WARNING, "5.0 s behind")],
)
def test_a_wrong_clock_is_reported_with_its_difference(dated: int, level: str, words: str) -> None:
    told = cluster.skew(dated, 1000, 2000)
    assert (told.level, words in told.found) == (level, True)


@pytest.mark.parametrize(("kept", "level"), [(True, OK), (None, OK), (False, WARNING)])
def test_an_unsynchronised_clock_is_a_warning(kept: bool | None, level: str) -> None:
    assert machine.clock(kept, 1_800_000_000).level == level
    assert machine.clock(kept, 0).level == WARNING


def test_a_folder_in_memory_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "mounts", lambda: {"/": "ext4", str(tmp_path.resolve()): "tmpfs"})
    assert any("in memory" in each.found for each in machine.disk(tmp_path / "not" / "there"))
    assert machine.filesystem(Path("/somewhere"), {"/": "ext4"}) == "ext4"


def test_settings_are_judged_as_a_start_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.properties"
    monkeypatch.setenv("KAFKA_LOG_RETENTION_HOUR", "3")
    file.write_text("listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://nowhere.invalid:9092\n")
    found = list(settings.examine(str(file)))
    assert [each.level for each in found] == [WARNING, OK, ERROR, WARNING]
    assert "log.retention.hours" in found[0].found
    assert "nowhere.invalid:9092" in found[2].found
    assert found[3].found.startswith("PLAINTEXT://0.0.0.0:9092: every machine that reaches this port may")
    file.write_text("num.partitions=3\n")
    assert list(settings.examine(str(file)))[-1].found == (
        "a start would open PLAINTEXT://127.0.0.1:9092, for clients on this machine only"
    )
    file.write_text("num.partition=3\n")
    assert "num.partitions" in next(each.found for each in settings.examine(str(file)) if each.level == ERROR)


def test_all_errors_of_a_file_are_reported_and_its_log_dirs_checked(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(  # the second log dir would lie below a file
        f"num.partition=3\nlog.retention.hours=x\nlog.dirs={tmp_path}/a,{file}/nope\n"
        "listeners=SASL_SSL://:9393\nauthorizer.class.name=a.B\n"
    )
    ended = Shell()("doctor", "--local", file, "-o", "jsonl")
    assert ended.code == 1
    told = [each["found"] for each in ended.documents if each["check"] == f"settings {file}"]
    assert [each.partition("=")[0].partition(" ")[0] for each in told] == [
        *("num.partition", "log.retention.hours", "listener", "authorizer.class.name")
    ]
    assert all(f"{file}:" in each for each in told)
    folders = {each["check"]: each["level"] for each in ended.documents if "dir" in each["check"]}
    assert folders == {f"log dir {tmp_path}/a": OK, f"log dir {file}/nope": ERROR}


def test_settings_without_effect_are_reported_as_at_a_start(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("confluent.balancer.enable=true\nmetric.reporters=a.B\nnum.io.threads=8\n")
    vendor, metrics, internals, rest, _ = settings.examine(str(file))
    assert (internals.level, internals.found) == (OK, "without effect, and not needed here: num.io.threads")
    assert (vendor.level, metrics.level, rest.level) == (WARNING, WARNING, OK)
    assert "confluent.balancer.enable" in vendor.found
    assert "metric.reporters" in metrics.found
    assert rest.found == "all values are valid"
    file.write_text("authorizer.class.name=a.B\n")
    (refused,) = settings.examine(str(file))
    assert (refused.level, "no such authorizer" in refused.found) == (ERROR, True)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Returns a listening socket of something that is not Kafka: it closes every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_another_server_at_the_port_is_not_taken_for_kafka(listener: socket.socket) -> None:
    shell = Shell(f"127.0.0.1:{listener.getsockname()[1]}")
    ended = shell("doctor", "-o", "json", "--timeout", 30)
    assert ended.code == 1
    assert "does not answer as Kafka" in ended.out


@pytest.mark.nightly
def test_an_advertised_address_where_something_else_answers_is_an_error_and_ends_the_search() -> None:
    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                peer.recv(1)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        name = f"127.0.0.1:{server.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pybroker.run(port=port, advertised_listeners=f"PLAINTEXT://{name}") as broker:
            ended = Shell(f"127.0.0.1:{port}")("doctor", "-o", "jsonl", "--timeout", 5, "--data-dir", broker.data_dir)
        server.shutdown(socket.SHUT_RDWR)
    assert ended.code == 1
    found = {each["check"]: each for each in ended.documents}
    assert found[f"broker 1 advertises {name}"]["level"] == ERROR
    assert "HTTP" in found[f"broker 1 advertises {name}"]["found"]
    assert "not checked" in found["health"]["found"]


def test_an_unknown_name_and_a_closed_port_are_told_apart() -> None:
    ended = Shell("no-such-host.invalid:9092,127.0.0.1:1")("doctor", "-o", "json", "--timeout", 30)
    assert ended.code == 1
    assert "the name has no address" in ended.out
    assert "does a broker run there?" in ended.out


@pytest.mark.parametrize(
    ("words", "is_judged"),
    [
        (("-b", "192.0.2.1:9092"), False),
        (("-b", "192.0.2.1:9092", "--data-dir", "."), True),
        (("-b", "192.0.2.1:9092", "--local"), True),
        (("-b", "127.0.0.1:1"), True),
        (("-b", "192.0.2.1:9092,localhost:1"), True),
    ],
)
def test_the_data_folder_is_judged_only_where_a_broker_may_run_here(words: tuple[str, ...], is_judged: bool) -> None:
    ended = Shell()("doctor", "--timeout", 0.01, "-o", "jsonl", *words)
    checks = {each["check"].removeprefix("default ").split()[0] for each in ended.documents}
    assert {"versions", "clock"} < checks
    assert {"data", "settings", "open"} & checks == ({"data", "settings", "open"} if is_judged else set())


@pytest.mark.nightly
def test_only_the_folders_of_the_broker_that_answers_are_judged() -> None:
    with pybroker.run() as broker:
        ended = Shell()("doctor", "-o", "jsonl", "-b", broker.bootstrap_servers)
        checks = [each["check"] for each in ended.documents]
        (folder,) = {each for each in checks if "/" in each}
        assert folder == f"log dir {broker.data_dir}/broker-1"
        assert not {"settings", "listener"} & set(checks)


def test_without_an_address_the_first_line_says_that_no_broker_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ((), 0.0, "connect", "Connection refused")
    monkeypatch.setattr(network, "reach", lambda host, port, timeout: Reach(host, port, *refused))
    words = ("doctor", "--timeout", 0.01, "-o", "jsonl", "--data-dir", tmp_path)
    first = Shell()(*words).documents[0]
    assert (first["level"], first["check"]) == (WARNING, "broker")
    assert first["found"].startswith(f"no broker runs on {tmp_path}: ")
    assert "-b HOST:PORT" in first["advice"]
    for others in (Shell()(*words, "--local"), Shell()(*words, "-b", "127.0.0.1:1")):
        assert "broker" not in [each["check"] for each in others.documents]
    locks = data_folder.Locks()
    locks.take(tmp_path)
    assert list(machine.running([tmp_path])) == []
    locks.release()
    (tmp_path / "file").touch()
    assert len(list(machine.running([tmp_path, tmp_path / "file"]))) == 1


@pytest.mark.parametrize(
    ("words", "doctor"),
    [
        (("topic", "list"), "pybroker doctor"),
        (("topic", "list", "-b", "{there}", "--command-config", "{file}"), "-b {there} --command-config {file}"),
        (("kafka-topics", "--list", "--bootstrap-server", "{there}"), "-b {there}"),
        (("topic", "list", "-b", "{there}", "-X", "client.id=a"), "-b {there} -X …"),
    ],
)
def test_the_advice_repeats_the_options_for_the_cluster(
    listener: socket.socket, tmp_path: Path, words: tuple[str, ...], doctor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.cli.common.cluster_options.CONNECT_S", 0.1)
    file, there = tmp_path / "client.properties", f"127.0.0.1:{listener.getsockname()[1]}"
    file.write_text("client.id=doctor\n")
    told = Shell(there)(*(word.format(there=there, file=file) for word in words)).err
    assert f"{doctor.format(there=there, file=file)}` finds out what answers there" in told


def test_the_advice_to_start_a_broker_is_given_only_if_nothing_answers() -> None:
    told = sentence(ConnectionFailed("localhost:1", "handshake", "closed by the broker"))
    assert told.endswith("(CONNECTION_FAILED): `pybroker doctor` finds out what answers there")
    assert "`pybroker start` starts one" in sentence(ConnectionFailed("localhost:1", "connect", "refused"))
    assert sentence(ConnectionFailed("localhost:1", "TLS handshake", "refused")).endswith("(CONNECTION_FAILED)")


@pytest.mark.parametrize("given", ["localhost", "localhost:x", "127.0.0.1:1,localhost"])
def test_an_address_that_no_client_takes_is_refused_as_by_every_verb(given: str) -> None:
    told = Shell()("doctor", "-b", given)
    assert (told.code, told.out) == (2, "")
    assert "is not host:port" in told.err
    assert told.err == Shell()("topic", "list", "-b", given).err


@pytest.mark.nightly
def test_a_healthy_broker_passes_and_is_not_changed() -> None:
    with pybroker.run() as broker:
        shell = Shell(broker.bootstrap_servers)
        ended = shell.done("doctor", "--write", "-o", "jsonl", "--data-dir", broker.data_dir)
        assert all(each["level"] != ERROR for each in ended.documents)
        checks = [each["check"] for each in ended.documents]
        assert f"broker 1 advertises {broker.bootstrap_servers}" in checks
        assert "clock of the broker" in checks
        assert shell.done("topic", "list", "-o", "name").out == ""
