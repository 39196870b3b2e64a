"""The measurement of hostile requests measures what it says, on one broker and on three, and on a small scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.bench.hostility import requests, table
from conformance.bench.hostility.__main__ import frames, one, run
from conformance.bench.hostility.target import COORDINATED, HOSTILE, running
from harness.protocol import kinds
from harness.protocol.wire_client import Wire

GOOD = {
    "said": "8 B",
    "seconds": 0.1,
    "p99_ms": 1.0,
    "longest_ms": 2.0,
    "peak_mb": 3,
    "left_mb": 1,
    "expelled": 0,
}


@pytest.mark.parametrize("brokers", [1, 3])
def test_every_row_has_its_figures(tmp_path: Path, brokers: int) -> None:
    with running(tmp_path, brokers) as target:
        rows = run(target, ["offset commit", "metadata names", "small ones"], 0.01, 20)
    commit, names, _ = (row for title, row in rows.items() if title.endswith(" MB"))
    assert commit["said"] == "4305 B"
    assert names["said"].endswith(" B")
    for row in rows.values():
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"] < float("inf")
        assert row["expelled"] == 0
    assert len(rows) == 5


def test_all_requests_of_a_packet_larger_than_the_buffers_are_answered(tmp_path: Path) -> None:
    packet = requests.small_ones(HOSTILE, 4_000_000)
    with running(tmp_path, 1) as target:
        said = one(target.address, packet)
    count = frames(packet)
    assert count > 100_000
    assert int(said.removesuffix(" B")) > 20 * count


def test_with_three_brokers_the_controller_leads_no_partition_under_test(tmp_path: Path) -> None:
    with running(tmp_path, 3) as target:
        with Wire(target.address) as wire:
            topics = [{"name": HOSTILE}]
            reply = wire.ask("Metadata", 12, topics=topics, allow_auto_topic_creation=False)
            found = wire.ask("FindCoordinator", 3, key="g", key_type=kinds.GROUP)
        [partition] = reply.topics[0].partitions
        addresses = {row.node_id: (row.host, row.port) for row in reply.brokers}
        assert addresses[partition.leader_id] == target.address != addresses[reply.controller_id]
        assert len(partition.isr_nodes) == 3
        assert {target.address_of(name) for name, (_, key) in COORDINATED.items() if key == "g"} == {
            (found.host, found.port)
        }
        assert len(target.pids()) == 4


@pytest.mark.parametrize("bad", [{"p99_ms": 50.1}, {"left_mb": 51}, {"expelled": 1}, {"said": "silent"}])
def test_the_verdict_names_rows_that_miss_a_goal(bad: dict[str, object]) -> None:
    assert table.verdict({"good": GOOD}).endswith("reached by all 1 rows.")
    assert table.verdict({"good": GOOD, "bad": GOOD | bad}).endswith("missed by bad.")


def test_figures_are_written_between_the_marks_for_their_number_of_brokers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n" + "\n".join(mark for brokers in (1, 3) for mark in (*table.marks(brokers), "b")) + "\n")
    for brokers in (1, 3):
        table.write({"x": GOOD}, False, brokers, page)
    one, three = page.read_text().split("b\n")[:2]
    assert "| x | 8 B | 0.1 | 1.0 | 2.0 | 3 | 1 |\n" in one
    assert "| x | 8 B | 0.1 | 1.0 | 2.0 | 3 | 1 | 0 |\n" in three
    with pytest.raises(LookupError):
        table.write({"x": GOOD}, False, 5, page)
