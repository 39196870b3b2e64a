"""A log remembers only so many producers."""

from __future__ import annotations

import os

import pytest

from pybroker.log.producers import idle_producers
from pybroker.log.producers.tests.test_producers import append, end, transactional
from pybroker.log.tests.helpers import NOW, idempotent, open_log

LIMIT = 80


@pytest.fixture
def log(tmp_path):
    return open_log(tmp_path)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(idle_producers, "MAX_PRODUCERS", LIMIT)


def come(log, producers, now_ms=NOW):
    """Appends a batch of each of these producers."""
    for number, producer in enumerate(producers):
        log.append_as_leader(idempotent(0, producer=producer), 0, now_ms + number)


def known(log):
    return {entry.producer_id for entry in log.producers.active()}


def test_a_log_remembers_a_limited_number_of_invented_producers(few, log, caplog):
    for producer in range(1000, 1000 + 10 * LIMIT):
        come(log, [producer])
        assert len(log.producers) <= LIMIT
        assert producer in known(log)
    assert len(log.producers) > LIMIT // 2
    assert "has too many idempotent producers" in caplog.text
    log.roll(NOW)
    assert len(known(open_log(os.path.dirname(log.folder)))) <= LIMIT


def test_producers_that_were_idle_for_longest_are_forgotten_first(few, log):
    come(log, range(LIMIT))
    first = append(log, idempotent(1, producer=0))
    log.append_as_leader(idempotent(2, producer=0), 0, NOW + 2 * LIMIT)
    come(log, [LIMIT], NOW + 3 * LIMIT)
    assert known(log) == {0, *range(LIMIT // 8 + 1, LIMIT + 1)}
    again = append(log, idempotent(1, producer=0))
    assert again.duplicate
    assert again.first_offset == first.first_offset


def test_a_producer_with_an_open_transaction_is_not_forgotten(few, log):
    for producer in range(2 * LIMIT):
        append(log, transactional(0, producer=producer))
    assert known(log) == set(range(2 * LIMIT))
    for producer in range(5000, 5000 + 4 * LIMIT):
        come(log, [producer], NOW + LIMIT)
        assert set(range(2 * LIMIT)) <= known(log)
        assert len(known(log)) <= 2 * LIMIT + LIMIT // 8
    assert log.producers.first_unstable_offset == 0
    for producer in range(2 * LIMIT):
        end(log, 0, producer=producer)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    log.producers.remove_expired(NOW + LIMIT)
    come(log, range(6000, 6000 + LIMIT))
    assert len(known(log)) <= LIMIT


def test_a_snapshot_of_too_many_producers_is_read_with_those_seen_last(few, tmp_path, monkeypatch):
    monkeypatch.setattr(idle_producers, "MAX_PRODUCERS", 10 * LIMIT)
    log = open_log(tmp_path)
    append(log, transactional(0, producer=7777))
    come(log, range(2 * LIMIT))
    log.close()
    monkeypatch.setattr(idle_producers, "MAX_PRODUCERS", LIMIT)
    found = known(open_log(tmp_path))
    assert {7777, 2 * LIMIT - 1} <= found
    assert 0 not in found
    assert len(found) <= LIMIT


def test_a_truncation_after_forgotten_producers_keeps_the_known_ones(few, log):
    come(log, range(LIMIT + 10))
    log.truncate_to(LIMIT - 5, NOW)
    assert known(log) == set(range(LIMIT // 8, LIMIT - 5))
    assert append(log, idempotent(0, producer=LIMIT - 6)).duplicate
    assert not append(log, idempotent(0, producer=LIMIT)).duplicate


def test_idle_producers_are_not_searched_for_each_new_producer(few, log, monkeypatch):
    """Otherwise, while all have open transactions, each new producer would cause a search through all others."""
    looked = []
    longest_idle = idle_producers.longest_idle
    monkeypatch.setattr(idle_producers, "longest_idle", lambda *args: looked.append(1) or longest_idle(*args))
    for producer in range(2 * LIMIT):
        append(log, transactional(0, producer=producer))
    assert len(looked) == 8
