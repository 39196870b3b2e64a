"""``log`` and ``partition``, of a broker with some data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.cli.tests.running import Shell
from pyclient import Producer


@pytest.fixture(scope="module")
def at() -> Iterator[tuple[Shell, Path]]:
    """Returns a broker with records, an aborted transaction and a committed offset, and its log dir."""
    with pybroker.run(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.done("topic", "create", "t", "-p", 2)
        shell.done("produce", "t", "-p", 0, "-K", ":", "-Z", stdin="k:v\nk:\n")
        with Producer(broker.bootstrap_servers, transactional_id="etl") as producer:
            producer.begin_transaction()
            producer.send("t", b"gone", partition=0).result(timeout=60)
            producer.abort_transaction()
        shell.done("kafka-consumer-groups", "--group", "g", "--topic", "t:0", "--reset-offsets", "--to-offset", 1,
                   "--execute")
        yield shell, broker.data_dir / "broker-1"


def test_a_running_brokers_logs_are_sound(at: tuple[Shell, Path]) -> None:
    shell, folder = at
    rows = {Path(row["partition"]).name: row for row in shell.done("log", "verify", folder, "-o", "jsonl").documents}
    assert (rows["t-0"]["records"], rows["t-0"]["end"], rows["t-0"]["problems"]) == (4, 4, [])
    assert {"t-1", "__consumer_offsets-0", "__transaction_state-0"} <= rows.keys()
    assert "t-1" not in shell.done("log", "verify", folder.parent).out


def test_damage_is_reported_and_fails_the_verb(at: tuple[Shell, Path], tmp_path: Path) -> None:
    shell, folder = at
    data = bytearray((folder / "t-0" / f"{0:020d}.log").read_bytes())
    data[65] ^= 1
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    assert "offset 0: wrong CRC" in shell.refused("log", "verify", tmp_path)
    assert " isvalid: false" in shell.done("log", "dump", tmp_path).out
    (empty := tmp_path / "empty").mkdir()
    assert "is it a data folder?" in shell.refused("log", "verify", empty)
    assert "or it is no data folder" in shell.refused("log", "dump", empty)
    (other := tmp_path / "notes.txt").touch()
    assert "not one of the files of a log" in shell.refused("log", "dump", other)


def test_a_log_is_dumped_with_its_records_and_markers(at: tuple[Shell, Path]) -> None:
    shell, folder = at
    lines = shell.done("log", "dump", "--values", folder / "t-0").out.splitlines()
    assert lines[1] == "Log starting offset: 0"
    assert any(line.startswith("| offset: 0 ") and line.endswith("key: k payload: v") for line in lines)
    assert any(line.startswith("| offset: 1 ") and line.endswith("valueSize: -1 sequence: 1 headerKeys: [] key: k")
               for line in lines)
    assert "endTxnMarker: ABORT coordinatorEpoch: 0" in lines[-1]
    documents = shell.done("log", "dump", "-r", "-o", "jsonl", folder / "t-0").documents
    assert [each["value"] for each in documents[:3]] == ["v", None, "gone"]
    assert documents[3]["control"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_other_files_of_a_log_are_dumped(at: tuple[Shell, Path], suffix: str) -> None:
    shell, folder = at
    path = folder / "t-0" / f"{0:020d}{suffix}"
    if path.exists():
        assert shell.done("kafka-dump-log", "--files", path).out.startswith(f"Dumping {path}\n")
        checked = shell.done("kafka-dump-log", "--index-sanity-check", "--files", path)
        assert "passed" in checked.out
    if suffix == ".txnindex":
        assert "firstOffset: 2 lastOffset: 3" in shell.done("log", "dump", path).out


def test_the_records_of_coordinators_are_decoded(at: tuple[Shell, Path]) -> None:
    shell, folder = at
    groups = shell.done("log", "dump", "-d", "group", folder / "__consumer_offsets-0").out
    assert 'key: {"type":"1","data":{"group":"g","topic":"t","partition":0}} payload: {"version":' in groups
    transactions = shell.done("log", "dump", "-d", "txn", folder / "__transaction_state-0").out
    payload = json.loads(transactions.splitlines()[-1].partition("payload: ")[2])
    assert payload["data"]["transactionStatus"] >= 0
    assert '"transactionalId":"etl"' in transactions


def test_log_dirs_are_shown_by_replica_and_in_sum(at: tuple[Shell, Path]) -> None:
    shell, folder = at
    rows = shell.done("log", "dirs", "t", "-o", "jsonl").documents
    assert [(row["topic"], row["partition"], row["dir"]) for row in rows] == [("t", n, str(folder)) for n in (0, 1)]
    assert rows[0]["size"] == (folder / "t-0" / f"{0:020d}.log").stat().st_size
    (total,) = shell.done("log", "dirs", "--total", "-o", "jsonl").documents
    assert total["free"] > 0


def test_a_healthy_cluster_shows_no_row(at: tuple[Shell, Path]) -> None:
    shell, _ = at
    assert shell.done("cluster", "health").out == ""
    assert shell.done("partition", "under-replicated").out == ""
    assert shell.done("partition", "elect", "--all").out == ""
    assert shell.done("partition", "elect", "t:0").out == ""


def test_an_unclean_election_needs_to_be_executed(at: tuple[Shell, Path]) -> None:
    shell, _ = at
    planned = shell.done("partition", "elect", "t:1", "--unclean")
    assert planned.out.split() == ["TOPIC", "PARTITION", "t", "1"]
    assert "--execute, in place of --dry-run, carries it out" in planned.err


def test_a_reassignment_is_planned_and_names_missing_features(at: tuple[Shell, Path]) -> None:
    shell, _ = at
    assert "nothing to move" in shell.done("partition", "reassign", "t", "--brokers", 1).err
    assert "there is no broker 7" in shell.refused("partition", "reassign", "t", "--brokers", 7, code=2)
    too_many = shell.refused("partition", "reassign", "t", "--replicas", 2, code=2)
    assert "2 replicas do not fit onto 1 broker" in too_many
