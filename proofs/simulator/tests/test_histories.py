"""Checks every invariant after every event of thousands of histories. A seed gives one history."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofs.simulator.__main__ import main
from proofs.simulator.machines.cluster import Process
from proofs.simulator.machines.environment import patched
from proofs.simulator.oracle.history import History
from proofs.simulator.oracle.oracle import Oracle, Violation
from proofs.simulator.report import Report, simulate
from proofs.simulator.settings import FAULTS, IN_USE, ROOMS
from proofs.simulator.world import World, drawn, run
from pybroker.cluster.producer_ids import MAX_KNOWN_ID
from pybroker.log.log import Log
from pybroker.replication.partition import Partition
from pybroker.replication.partition_table import PartitionTable
from pybroker.replication.promises import Promises

GATE = 50
NIGHTLY = 2_000
AT_ONCE = 500
GUESTS = 9
"""A seed whose history has an authorizer."""


def checked(first: int, end: int, processes: int) -> Report:
    report = simulate(first, end, processes)
    assert report.failures == [], "python -m proofs.simulator --trace --seeds N shows one"
    assert report.histories == end - first
    assert report.acked > report.histories
    return report


def test_every_invariant_holds_in_fifty_histories() -> None:
    checked(0, GATE, processes=1)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, NIGHTLY, AT_ONCE))
def test_every_invariant_holds_in_two_thousand_histories(first: int) -> None:
    report = checked(first, first + AT_ONCE, os.cpu_count() or 1)
    assert report.faults.keys() >= {*FAULTS, *(kind for room in IN_USE for kind in ROOMS[room])}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [7, 24])
def test_a_seed_gives_the_same_history_in_every_process(seed: int) -> None:
    """The seed of the process's hashes must not matter. The second history has members of groups of both protocols."""
    here = run(seed, traced=True)
    assert here.trace == run(seed, traced=True).trace
    for hash_seed in ("0", "2"):
        command = [sys.executable, "-m", "proofs.simulator", "--seeds", str(seed), "--trace"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        told = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
        assert told.splitlines()[:-1] == here.trace


def test_different_seeds_draw_different_settings() -> None:
    assert len({repr(drawn(seed)) for seed in range(50)}) == 50


def test_the_report_counts_the_histories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert main(["--seeds", "0-3", "--processes", "1", "--report", str(report)]) == 0
    assert '"histories": 3' in report.read_text()
    assert "3 of 3 histories" in capsys.readouterr().out


def test_a_failed_history_reports_its_seed_and_its_last_events() -> None:
    with patched([(Promises, "promise", lambda *_: None)]):
        outcome = next(each for seed in range(20) if (each := run(seed, traced=True)).invariant)
    assert outcome.invariant == "ack"
    assert outcome.trace[-1].endswith(f"VIOLATION {outcome.text}")


def test_histories_have_members_that_join_groups() -> None:
    world = World(24, drawn(24))
    assert min(world.settings.classic_members, world.settings.modern_members) > 1
    assert world.run().invariant == ""
    assert world.groups.joined >= world.settings.lives
    assert world.groups.places


def test_histories_with_an_authorizer_serve_and_refuse_requests_of_guests() -> None:
    world = World(GUESTS, drawn(GUESTS))
    assert world.run().invariant == ""
    assert world.guests is not None
    assert len(world.guests.past) == world.settings.guests > 1
    assert min(world.guests.served, world.guests.refused) > world.settings.guests


def test_writers_invent_producer_ids_that_no_broker_assigns() -> None:
    """Brokers allocate ids above those in their logs, so two producers had one id."""
    assert History(drawn(0)).new_producer() > MAX_KNOWN_ID


def test_the_oracle_reads_replicas_before_they_are_deleted() -> None:
    """A batch was acknowledged and its topic deleted in one event. The oracle had not seen that the batch was
    committed.
    """
    seen: dict[Partition, int] = {}
    ends: list[bool] = []
    look, take_out = Oracle.look_before_end, PartitionTable.take_out

    def look_before_end(oracle: Oracle, process: Process) -> None:
        look(oracle, process)
        seen.update((partition, partition.log.high_watermark) for partition in process.replicas().partitions)

    def look_at_end(table: PartitionTable, partition: Partition) -> None:
        ends.append(seen.get(partition) == partition.log.high_watermark)
        take_out(table, partition)

    settings = replace(drawn(0, "topics"), faults=frozenset({"delete topic"}))
    with patched([(Oracle, "look_before_end", look_before_end), (PartitionTable, "take_out", look_at_end)]):
        assert run(0, settings).invariant == ""
    assert ends
    assert all(ends)


def test_a_violation_within_an_event_is_reported_after_it() -> None:
    def look(oracle: Oracle, process: Process) -> None:
        oracle.fail("agreement", "is broken")

    world = World(0)
    process: Any = None
    with patched([(Oracle, "look", look)]):
        world.oracle.look_before_end(process)
    with pytest.raises(Violation, match="is broken"):
        world.oracle.check()


def test_no_fault_begins_while_the_brokers_are_stopped_at_the_end() -> None:
    """The simulator restarted a stopped broker, and did not stop it again."""
    struck: list[float] = []

    def strikes_later(world: World) -> None:
        for _ in range(10):
            world.faults.later(lambda: struck.append(world.scheduler.now), 0.001)

    with patched([(World, "_check_factor", strikes_later)]):
        assert run(0, replace(drawn(0, ""), is_stopped=True)).invariant == ""
    assert struck == []


@pytest.mark.parametrize(("is_late", "named_by"), [(False, ""), (True, "ack")])
def test_the_oracle_counts_records_committed_in_the_event_of_a_log_dir_failure(
    is_late: bool, named_by: str
) -> None:
    """Other brokers learned the high watermark before the oracle had looked. What the leader commits later was never
    acknowledged.
    """
    failed: list[Log] = []
    update = Log.update_high_watermark

    def update_and_fail(log: Log, offset: int) -> None:
        if failed or offset != 2 or log.topic_partition.topic != "t":
            update(log, offset)
            return
        failed.append(log)
        if not is_late:
            update(log, offset)
        log.log_dir.fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "testing")
        if is_late:
            update(log, offset)

    settings = replace(drawn(10, "disks"), faults=frozenset({"clock"}))
    with patched([(Log, "update_high_watermark", update_and_fail)]):
        assert run(10, settings).invariant == named_by
    assert failed


def test_the_oracle_reads_a_closed_log_before_its_machine_stops() -> None:
    """A follower appended, answered and stopped in one event, and the oracle missed its records."""
    assert run(8451, drawn(8451)).invariant == ""


def test_a_store_that_is_restored_repeatedly_causes_no_busy_loop() -> None:
    assert run(6051, drawn(6051)).invariant == ""


def test_records_below_the_log_start_offset_need_not_equal_committed_ones() -> None:
    """A follower came back with a record that nobody else had. By then the log began after it on every broker."""
    assert run(16389, drawn(16389)).invariant == ""
