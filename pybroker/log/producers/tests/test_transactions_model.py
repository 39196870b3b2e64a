"""Random lives of a log with transactions against a model that keeps every batch in a list.

Producers write, commit, abort and are fenced, and the high watermark follows at random. The log rolls, is truncated,
loses its oldest segments, stops cleanly or not and is opened again, or is copied by a follower. After each step, the
log and the list must give the same answers. A failure names its seed.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin
from pybroker.log.expiry import apply_retention
from pybroker.log.log import Log
from pybroker.log.producers import marker as markers
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.tests.helpers import NOW, UnsyncedStorage, batch, idempotent, open_log

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_ms=1000)
PRODUCERS = 5
PLAIN = -1


class Entry(NamedTuple):
    """One batch of one record: data, or (``committed`` is not None) a marker."""

    producer: int
    epoch: int
    committed: bool | None = None


class Model:
    """The log as a list, and a real one that should agree."""

    def __init__(self, root: object, choice: random.Random) -> None:
        self.root = root
        self.choice = choice
        self.entries: list[Entry] = []
        self.start = self.high_watermark = 0
        self.opened = 0
        self.log = self.open("t-0")

    def open(self, name: str, *, clean: bool = True) -> Log:
        return open_log(
            self.root,
            CONFIG,
            storage=UnsyncedStorage(),
            clean=clean,
            name=name,
            log_start_offset=self.start,
            high_watermark=self.high_watermark,
        )

    # Events

    def step(self) -> None:
        deeds = [self.write] * 12 + [self.end] * 6 + [self.advance] * 4 + [self.plain] * 2
        deeds += [self.truncate, self.restart, self.kill, self.retain, self.follow]
        self.choice.choice(deeds)()

    def state_of(self, producer: int) -> tuple[int, int, int | None]:
        """Returns the epoch, the next sequence, and the first offset of the open transaction."""
        epoch, sequence, first = 0, 0, None
        for offset, entry in enumerate(self.entries):
            if entry.producer == producer:
                if entry.epoch > epoch:
                    epoch, sequence = entry.epoch, 0
                if entry.committed is not None:
                    first = None
                else:
                    sequence += 1
                    first = offset if first is None else first
        return epoch, sequence, first

    def append(self, records: bytes, entry: Entry, **options: object) -> None:
        info = self.log.append_as_leader(bytearray(records), 0, NOW, **options)
        assert info.first_offset == len(self.entries)
        assert not info.duplicate
        self.entries.append(entry)

    def write(self) -> None:
        producer = self.choice.randrange(PRODUCERS)
        epoch, sequence, _ = self.state_of(producer)
        records = idempotent(sequence, b"v", producer=producer, epoch=epoch, transactional=True)
        self.append(records, Entry(producer, epoch))

    def end(self) -> None:
        producer = self.choice.randrange(PRODUCERS)
        epoch, _, first = self.state_of(producer)
        if first is not None or self.choice.random() < 0.1:
            committed = self.choice.random() < 0.5
            record = markers.encode(EndTxnMarker(producer, epoch + 1, 0, committed, 2), NOW)
            entry = Entry(producer, epoch + 1, committed)
            self.append(record, entry, origin=Origin.COORDINATOR, transaction_version=2)

    def plain(self) -> None:
        self.append(batch(b"plain", timestamp=NOW), Entry(PLAIN, -1))

    def advance(self) -> None:
        self.advance_to(self.choice.randint(self.high_watermark, len(self.entries)))

    def advance_to(self, offset: int) -> None:
        self.high_watermark = offset
        self.log.update_high_watermark(offset)

    def truncate(self) -> None:
        offset = self.choice.randint(self.high_watermark, len(self.entries))
        self.log.truncate_to(offset, NOW)
        del self.entries[offset:]

    def restart(self) -> None:
        self.advance_to(len(self.entries))
        self.log.close()
        self.log = self.open("t-0", clean=True)

    def kill(self) -> None:
        self.advance_to(len(self.entries))
        self.log.files.release()
        self.log = self.open("t-0", clean=False)

    def retain(self) -> None:
        if self.choice.random() < 0.3:
            apply_retention(self.log, NOW + 2000)
            self.start = self.log.log_start_offset
            self.restart()

    def follow(self) -> None:
        """Copies the log to another replica, which must have the same state."""
        if self.start == 0:
            self.opened += 1
            other = self.open(f"t-{self.opened}")
            other.append_as_follower(self.log.read_bytes(0, 1 << 20), 0, NOW)
            for offset in range(other.log_end_offset, len(self.entries)):
                if offset == other.log_end_offset:
                    other.append_as_follower(self.log.read_bytes(offset, 1 << 20), 0, NOW)
            other.update_high_watermark(self.high_watermark)
            mine, self.log = self.log, other
            self.check()
            self.log = mine
            other.files.release()

    # Invariants

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """Returns producer, first offset, marker's offset and outcome of every transaction."""
        found, running = [], {}
        for offset, entry in enumerate(self.entries):
            if entry.producer == PLAIN:
                continue
            if entry.committed is None:
                running.setdefault(entry.producer, offset)
            elif entry.producer in running:
                found.append((entry.producer, running.pop(entry.producer), offset, entry.committed))
        return found + [(producer, first, None, False) for producer, first in running.items()]

    def check(self) -> None:
        log, high_watermark = self.log, self.high_watermark
        assert log.log_end_offset == len(self.entries)
        all_of_them = self.transactions()
        unstable = [first for _, first, last, _ in all_of_them if last is None or last >= high_watermark]
        stable = max(log.log_start_offset, min([*unstable, high_watermark]))
        assert log.last_stable_offset == stable
        aborted = [each[:3] for each in all_of_them if each[2] is not None and not each[3]]
        begin = self.choice.randint(log.log_start_offset, len(self.entries))
        until = self.choice.randint(begin, max(begin, stable))
        expected = [each for each in aborted if each[1] < until and each[2] >= begin and until > begin]
        found = [each[:3] for each in log.aborted_transactions(begin, until)]
        assert [each for each in found if until > begin] == sorted(expected, key=lambda each: each[2])

    def check_producers(self) -> None:
        for entry in self.log.producers.active():
            epoch, sequence, first = self.state_of(entry.producer_id)
            known = -1 if entry.transaction_first_offset < 0 else entry.transaction_first_offset
            assert (entry.epoch, entry.next_sequence) == (epoch, sequence)
            assert known == (-1 if first is None else first)


@pytest.mark.parametrize("seed", range(12))
def test_a_log_with_transactions_behaves_like_a_list_of_batches(tmp_path, seed):
    model = Model(tmp_path, random.Random(seed))
    for _ in range(120):
        model.step()
        model.check()
        model.check_producers()
