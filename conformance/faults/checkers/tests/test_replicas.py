"""The comparison of replicas catches each planted difference, and nothing in replicas that are alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.data import batches
from conformance.faults.checkers import replicas
from conformance.faults.checkers.history import LOST

LogDirs = dict[int, Path]
SEGMENT, NEXT = "00000000000000000000.log", "00000000000000000006.log"


def log(first: int, count: int) -> bytes:
    offsets = range(first, first + count)
    return b"".join(batches.batch([b"%d" % offset], base_offset=offset, base_timestamp=0) for offset in offsets)


@pytest.fixture
def log_dirs(tmp_path: Path) -> LogDirs:
    """Writes three replicas of ten records; one of them has rolled its segment elsewhere."""
    for broker in (1, 2, 3):
        folder = tmp_path / f"broker-{broker}" / "t-0"
        folder.mkdir(parents=True)
        (folder / SEGMENT).write_bytes(log(0, 6) if broker == 3 else log(0, 10))
        (folder.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    (tmp_path / "broker-3" / "t-0" / NEXT).write_bytes(log(6, 4))
    return {broker: tmp_path / f"broker-{broker}" for broker in (1, 2, 3)}


def test_different_segment_boundaries_are_not_a_difference(log_dirs: LogDirs) -> None:
    assert replicas.check(log_dirs, "t-0") == []


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def write_another_leader_epoch(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[15] ^= 1
    path.write_bytes(data)


def end_earlier(path: Path) -> None:
    path.write_bytes(log(0, 9))


def tear_the_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def commit_what_is_not_there(path: Path) -> None:
    (path.parent.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 11\n")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (flip_a_byte, replicas.DIFFERENT),
        (write_another_leader_epoch, replicas.DIFFERENT),
        (end_earlier, LOST),
        (tear_the_tail, LOST),
        (commit_what_is_not_there, LOST),
    ],
)
def test_a_planted_difference_is_reported(log_dirs: LogDirs, damage: Callable[[Path], None], kind: str) -> None:
    damage(log_dirs[2] / "t-0" / SEGMENT)
    assert {anomaly.kind for anomaly in replicas.check(log_dirs, "t-0")} == {kind}


def test_a_missing_replica_is_reported(log_dirs: LogDirs) -> None:
    shutil.rmtree(log_dirs[3] / "t-0")
    assert {anomaly.kind for anomaly in replicas.check(log_dirs, "t-0")} == {LOST}


@pytest.mark.parametrize(("point", "batches_synced"), [(None, 0), (0, 0), (4, 4), (10, 10), (11, 10)])
def test_bytes_before_the_recovery_point_are_synced(
    log_dirs: LogDirs, point: int | None, batches_synced: int
) -> None:
    if point is not None:
        (log_dirs[1] / "recovery-point-offset-checkpoint").write_text(f"0\n2\nother 0 99\nt 0 {point}\n")
    assert replicas.synced_bytes(log_dirs[1] / "t-0" / SEGMENT) == len(log(0, batches_synced))
