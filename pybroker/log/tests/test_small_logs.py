"""A small log that is closed takes no snapshot of its producers: a start reads the log as quickly."""

from __future__ import annotations

import pytest

from pybroker.log import log_files
from pybroker.log.appending import Origin
from pybroker.log.tests.helpers import NOW, idempotent, marker, open_log

SMALL_LOG_BYTES = log_files.SMALL_LOG_BYTES


@pytest.fixture
def snapshots_of_small_logs():
    """Overrides the fixture of the same name: here small logs take no snapshots."""


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path)
    append(log, idempotent(0, b"a", b"b"))
    append(log, idempotent(0, producer=5, epoch=3, transactional=True))
    append(log, idempotent(0, producer=9, transactional=True))
    append(log, marker(1, producer=5, epoch=3), origin=Origin.COORDINATOR)
    return log


def append(log, records, **options):
    return log.append_as_leader(records, 0, NOW, **options)


def state(log):
    return {
        each.producer_id: (each.epoch, each.last_sequence, each.last_offset, each.transaction_first_offset)
        for each in log.producers.active()
    }


def snapshots(path):
    return [each.name for each in (path / "t-0").glob("*.snapshot")]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_small_log_is_closed_without_a_snapshot_and_its_producers_are_read_from_it(tmp_path, log, is_clean):
    expected = state(log), log.producers.first_unstable_offset
    log.close()
    assert snapshots(tmp_path) == []
    again = open_log(tmp_path, clean=is_clean)
    assert (state(again), again.producers.first_unstable_offset) == expected
    assert append(again, idempotent(0, b"a", b"b")).duplicate


def deleted(log):
    log.update_high_watermark(2)
    log.raise_log_start_offset(2)


def rolled(log):
    log.roll(NOW)


def grown(log):
    append(log, idempotent(2, b"x" * SMALL_LOG_BYTES))


@pytest.mark.parametrize("change", [deleted, rolled, grown])
def test_a_log_whose_producers_take_long_to_read_gets_a_snapshot(tmp_path, log, change):
    change(log)
    expected = state(log)
    log.close()
    assert f"{log.log_end_offset:020d}.snapshot" in snapshots(tmp_path)
    assert state(open_log(tmp_path)) == expected
