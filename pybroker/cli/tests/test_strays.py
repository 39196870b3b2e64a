"""A store that is lost or older than the logs loses no record: what it does not know is kept, and given back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pybroker
from pybroker.cli.tests.running import Shell

STORE = "coordination.db*"
FIRST = [f"a{n}" for n in range(300)]


def lose_store(folder: Path) -> None:
    """But what the broker knows of its cluster's id stands in its log dirs too."""
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
def test_strays_are_removed_by_a_person_only(tmp_path: Path) -> None:
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


def test_what_is_no_stray_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert "is no stray" in Shell().refused("log", "strays", "remove", tmp_path / "t-0", "--execute")


@pytest.mark.nightly
def test_a_log_whose_broker_has_not_heard_that_its_topic_is_lost_is_adopted_with_the_strays(tmp_path: Path) -> None:
    """One that has joined goes on with what it leads while the others are stopped, and has more than they have."""
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
