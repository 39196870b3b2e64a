"""A lost or outdated store loses no record: brokers keep logs that the store does not know, and take them back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pybroker
from harness.servers.ensemble import Ensemble, Tls
from pybroker.cli.common.verbs import Failure
from pybroker.cli.log.strays import store_of
from pybroker.cli.tests.running import Shell
from pybroker.security.tls.certificates import make

STORE = "coordination.db*"
FIRST = [f"a{n}" for n in range(300)]


def lose_store(folder: Path) -> None:
    """Removes the store. The log dirs still know the cluster's id."""
    for path in folder.glob(STORE):
        path.unlink()


def read(shell: Shell, topic: str) -> list[str]:
    return shell.done("consume", topic, "--from-beginning", "--to", "end", "-f", "%s\n").out.split()


def strays(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = Shell().done("log", "strays", "list", "--data-dir", folder, "-o", "jsonl").documents
    return rows


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 3])
def test_a_topic_whose_name_was_taken_by_another_is_kept_and_adopted(tmp_path: Path, processes: int) -> None:
    settings = {"default_replication_factor": processes, "offsets_topic_num_partitions": 1}
    with pybroker.run(processes, data_dir=tmp_path, **settings) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.done("topic", "create", "t", "-p", 2, "-r", processes)
        shell.done("produce", "t", stdin="\n".join(FIRST))
        assert sorted(read(shell, "t")) == sorted(FIRST)
    lose_store(tmp_path)
    with pybroker.run(processes, data_dir=tmp_path, **settings) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.done("produce", "t", stdin="other\n")
        assert read(shell, "t") == ["other"]
        found = [row for row in strays(tmp_path) if row["topic"] == "t"]
        assert len(found) == 2 * processes
        assert sum(int(str(row["end"])) for row in found) == len(FIRST) * processes
        assert "belongs to no topic" in shell.done("cluster", "health").out
        assert "choose" not in Shell().refused("log", "strays", "adopt", "t", "--data-dir", tmp_path, "--execute")
        shell.done("topic", "delete", "t")
    plan = Shell().done("log", "strays", "adopt", "t", "--data-dir", tmp_path, "-o", "jsonl")
    assert "this is a plan" in plan.err
    assert "if 't' was deleted while a log dir was offline, do not adopt it" in plan.err
    assert [len(row["replicas"]) for row in plan.documents] == [processes, processes]
    Shell().done("log", "strays", "adopt", "t", "--data-dir", tmp_path, "--execute")
    with pybroker.run(processes, data_dir=tmp_path, **settings) as broker:
        shell = Shell(broker.bootstrap_servers)
        assert sorted(read(shell, "t")) == sorted(FIRST)
        shell.done("produce", "t", stdin="more\n")
        assert len(read(shell, "t")) == len(FIRST) + 1
        assert [row for row in strays(tmp_path) if row["topic"] == "t"] == []
        rows = shell.done("config", "get", "topic", "t", "-o", "jsonl").documents
        assert [row["value"] for row in rows if row["key"] == "cleanup.policy"] == [""]


@pytest.mark.nightly
def test_strays_are_removed_only_with_execute(tmp_path: Path) -> None:
    with pybroker.run(data_dir=tmp_path) as broker:
        Shell(broker.bootstrap_servers).done("produce", "t", stdin="a\n")
    lose_store(tmp_path)
    with pybroker.run(data_dir=tmp_path):
        [row] = strays(tmp_path)
        Shell().done("log", "strays", "remove", row["folder"])
        assert strays(tmp_path) == [row]
        Shell().done("log", "strays", "remove", row["folder"], "--execute")
        assert strays(tmp_path) == []
    assert list((tmp_path / "broker-1").glob("t-*")) == []


def test_a_folder_that_is_not_a_stray_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert "is not a stray" in Shell().refused("log", "strays", "remove", tmp_path / "t-0", "--execute")


@pytest.mark.nightly
def test_a_log_of_a_lost_topic_that_is_not_a_stray_yet_is_adopted_too(tmp_path: Path) -> None:
    """A broker continues to lead its topics while the others are stopped, and gets more records than they have."""
    settings = {"default_replication_factor": 2, "offsets_topic_num_partitions": 1}
    with pybroker.run(2, data_dir=tmp_path, **settings) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.done("topic", "create", "t", "-p", 1, "-r", 2)
        shell.done("produce", "t", stdin="\n".join(FIRST))
    ahead, behind = tmp_path / "broker-1" / "t-0", tmp_path / "ahead"
    shutil.copytree(ahead, behind)
    lose_store(tmp_path)
    with pybroker.run(2, data_dir=tmp_path, **settings):
        assert len(strays(tmp_path)) == 2
    [stray] = [Path(str(row["folder"])) for row in strays(tmp_path) if row["broker"] == 1]
    shutil.rmtree(stray)
    behind.rename(ahead)
    [row] = Shell().done("log", "strays", "adopt", "t", "--data-dir", tmp_path, "-o", "jsonl").documents
    assert row["replicas"] == [1, 2]
    Shell().done("log", "strays", "adopt", "t", "--data-dir", tmp_path, "--execute")
    with pybroker.run(2, data_dir=tmp_path, **settings) as broker:
        assert read(Shell(broker.bootstrap_servers), "t") == FIRST
    assert strays(tmp_path) == []


def test_without_metadata_nothing_is_adopted(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=a:1\nzookeeper.set.acl=true\n")
    with pytest.raises(Failure, match="ZooKeeper would not know whose the nodes are"):
        store_of(str(tmp_path), None, str(file))
    file.write_text("num.partitions=2\n")
    for server_properties in (None, str(file)):
        with pytest.raises(Failure, match=r"coordination\.db does not exist: name the metadata store with"):
            store_of(str(tmp_path), None, server_properties)


def test_a_zookeeper_is_opened_as_the_brokers_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, logins, settings = make(tmp_path / "tls"), tmp_path / "jaas.conf", tmp_path / "server.properties"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    logins.write_text(f'Client {{ {module} username="kafka" password="secret"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={logins}")
    names = {"truststore": files.authority, "keystore": files.client}
    lines = [f"zookeeper.ssl.{name}.location={path}" for name, path in names.items()]
    settings.write_text("\n".join([*lines, "zookeeper.ssl.client.enable=true", "zookeeper.set.acl=true"]))
    options = store_of(str(tmp_path), "a:1/kafka", str(settings))
    assert options.login is not None
    assert options.tls is not None
    assert (options.zookeeper, options.login.user, options.is_guarded) == ("a:1/kafka", "kafka", True)


@pytest.mark.nightly
def test_a_topic_is_adopted_in_a_zookeeper_with_tls_and_users(tmp_path: Path) -> None:
    files, settings = make(tmp_path / "tls"), tmp_path / "server.properties"
    login = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret";'
    given = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(files.authority),
        "zookeeper.ssl.keystore.location": str(files.client),
        "zookeeper.sasl.jaas.config": login,
        "zookeeper.set.acl": "true",
    }
    by_name: dict[str, Any] = {name.replace(".", "_"): text for name, text in given.items()}
    tls = Tls(files.server, files.authority)
    with Ensemble(tmp_path / "zookeeper", tls=tls, users={"kafka": "secret"}) as zookeeper:
        places = [f"{zookeeper.tls_hosts}/{name}" for name in ("lost", "kafka")]
        with pybroker.run(data_dir=tmp_path / "data", zookeeper_connect=places[0], **by_name) as broker:
            Shell(broker.bootstrap_servers).done("produce", "t", stdin="\n".join(FIRST))
        with pybroker.run(data_dir=tmp_path / "data", zookeeper_connect=places[1], **by_name):
            assert [row["topic"] for row in strays(tmp_path / "data")] == ["t"]
        adopt = ("log", "strays", "adopt", "t", "--data-dir", tmp_path / "data", "--execute", "--server-properties")
        given["zookeeper.connect"] = places[1]
        settings.write_text("".join(f"{name}={text}\n" for name, text in given.items()).replace('"secret"', '"wrong"'))
        assert "does not accept the login of kafka" in Shell().refused(*adopt, settings)
        settings.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
        Shell().done(*adopt, settings)
        with pybroker.run(data_dir=tmp_path / "data", zookeeper_connect=places[1], **by_name) as broker:
            assert read(Shell(broker.bootstrap_servers), "t") == FIRST
