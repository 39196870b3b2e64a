"""``log verify`` finds nothing in a healthy log, and each kind of damage in a damaged one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cy.batch.compression import Codec
from pybroker.config.log_config import LogConfig
from pybroker.log import inspection
from pybroker.log.appending import Origin
from pybroker.log.tests.helpers import NOW, batch, fill, idempotent, marker, numbered, open_log

SMALL = LogConfig(segment_bytes=8192, index_interval_bytes=512)
Damage = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed partition of several segments, with every codec, idempotent and transactional batches, and an abort."""
    log = open_log(tmp_path, SMALL)
    fill(log, numbered(100, 300))
    for codec in Codec:
        log.append_as_leader(batch(*numbered(20), codec=codec), 1, NOW)
    for number in range(3):
        log.append_as_leader(idempotent(number, b"x", producer=9), 1, NOW)
    log.append_as_leader(idempotent(0, b"gone", transactional=True), 1, NOW)
    log.append_as_leader(marker(0), 1, NOW, origin=Origin.COORDINATOR)
    log.close()
    return tmp_path / "t-0"


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def test_the_inspection_finds_nothing_in_logs_that_the_broker_wrote(folder: Path) -> None:
    found = inspection.inspect_partition(str(folder))
    assert found.findings == []
    assert len(found.segments) > 3
    assert sum(each.records for each in found.segments) == 205
    assert found.segments[-1].next_offset == 205
    assert list(inspection.partitions(str(folder.parent))) == [str(folder)]


def test_the_inspection_changes_no_file(folder: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    inspection.inspect_partition(str(folder))
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def flip(at: int) -> Damage:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.write_bytes(data)

    return damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize(
    ("suffix", "damage", "problem"),
    [
        (".log", flip(-1), "wrong CRC of the batch"),
        (".log", flip(30), "wrong CRC of the batch"),
        (".log", flip(16), " bytes, is not inspected"),
        (".log", cut, "is cut by the end of the file"),
        (".index", flip(7), "the batch begins at"),
        (".index", flip(3), "no batch ends there"),
        (".index", cut, "5 bytes follow the last whole entry"),
        (".timeindex", flip(7), "the batch's greatest is"),
        (".timeindex", cut, "9 bytes follow the last whole entry"),
        (".snapshot", flip(-1), "CRC"),
        ("leader-epoch-checkpoint", flip(0), ""),
    ],
)
def test_the_inspection_reports_where_damage_is(folder: Path, suffix: str, damage: Damage, problem: str) -> None:
    path = sorted(each for each in folder.iterdir() if each.name.endswith(suffix) and each.stat().st_size)[0]
    damage(path)
    findings = inspection.inspect_partition(str(folder)).findings
    assert [each for each in findings if each.path == str(path) and problem in each.problem], findings


def test_the_inspection_reports_a_transaction_index_entry_without_its_abort_marker(folder: Path) -> None:
    index = next(folder.glob("*.txnindex"))
    flip(9)(index)
    (finding,) = inspection.inspect_partition(str(folder)).findings
    assert finding.path == str(index)
    assert "there is no marker of producer" in finding.problem


def test_the_inspection_reports_a_segment_that_overlaps_the_next(folder: Path) -> None:
    first, second = logs(folder)[:2]
    renamed = first.with_name(f"{int(second.stem) - 1:020d}.log")
    second.rename(renamed)
    findings = inspection.inspect_partition(str(folder)).findings
    assert any("with which the next segment begins" in each.problem for each in findings)


def test_zeros_that_a_crash_left_in_an_index_are_not_reported(folder: Path) -> None:
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = sorted(folder.glob(f"*{suffix}"))[-1]
        path.write_bytes(path.read_bytes() + bytes(size * 10))
    assert inspection.inspect_partition(str(folder)).findings == []
