"""Random lives of a compacted log beside a model of its keys.

Several producers write, commit and abort, in transactions that span rounds of compaction; others write plainly. Between
the rounds the log rolls, is truncated, loses its beginning, stops cleanly or not, and is opened again; time passes, and
``delete.retention.ms`` changes. ``check`` compares what a read_committed consumer sees with the model, which keeps
every batch:

* no record is read twice, and none that was not written or that was aborted;
* no record is missing that compaction must keep: each key's last record, and all records beyond the clean part;
* in the clean part, each key occurs once;
* a tombstone stays for ``delete.retention.ms`` after the first round that met it, and the next round removes it;
* a consumer that keeps up well enough (``Reader``) ends with the same values as the model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from cy.batch import Builder, iterate, scan
from pybroker.clock import ManualClock
from pybroker.config.log_config import MAX_LONG, LogConfig
from pybroker.log.appending import Origin
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.compaction import Resources
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.interruption import Interruption
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.producers import marker as markers
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, UnsyncedStorage

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=900,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
    segment_ms=MAX_LONG,
)
RESOURCES = Resources(map_bytes=1 << 16, read_bytes=300)
RETENTIONS_MS = (0, 1000, 60_000, MAX_LONG)
PAUSES_MS = (1, 1, 900, 1500, 70_000)
PRODUCERS = 3
PLAIN = -1


class Written(NamedTuple):
    """A record that was sent."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Sent:
    """A batch, or (``committed`` is not None) a marker; ``transaction`` numbers the producer's transactions."""

    producer: int
    epoch: int
    sequence: int
    records: tuple[Written, ...] = ()
    transaction: int = -1
    committed: bool | None = None

    @property
    def last_sequence(self) -> int:
        return self.sequence + len(self.records) - 1


class Reader:
    """A consumer with isolation.level=read_committed that reads a page at a time."""

    def __init__(self, log: Log, page_bytes: int = 400) -> None:
        self.offset = log.log_start_offset
        self.seen: list[Written] = []
        self._page_bytes = page_bytes
        self._aborted: set[int] = set()

    def read(self, log: Log) -> bool:
        """Reads a page; returns False at the end of the log."""
        self.offset = max(self.offset, log.log_start_offset)
        part = log.read(self.offset, self._page_bytes, log.last_stable_offset)
        if not part.size:
            return False
        pending = [each[:2] for each in log.aborted_transactions(self.offset, part.next_offset)]
        data = part.read()
        for batch in scan(data):
            self._aborted |= {producer for producer, first in pending if first <= batch.last_offset}
            pending = [each for each in pending if each[1] > batch.last_offset]
            whole = data[batch.position : batch.position + batch.size]
            if batch.is_control:
                marker = markers.decode(whole) if batch.count else None
                if marker is not None and marker.kind == markers.ABORT:
                    self._aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in self._aborted):
                self.seen += [Written(r.offset, r.key, r.value) for r in iterate(whole) if r.offset >= self.offset]
        assert part.next_offset > self.offset
        self.offset = part.next_offset
        return True

    def values(self) -> dict[bytes, bytes]:
        """Returns the table of latest values that the reader has built."""
        found = {record.key: record.value for record in self.seen}
        return {key: value for key, value in found.items() if value is not None}


class History:
    """One life of a log."""

    def __init__(self, root: object, seed: int) -> None:
        self.choice = random.Random(seed)
        self.root = root
        self.clock = ManualClock(NOW)
        self.config = replace(CONFIG, delete_retention_ms=self.choice.choice(RETENTIONS_MS))
        self.keys = [b"k%d" % number for number in range(self.choice.choice((2, 4, 8)))]
        self.bumps_epochs = self.choice.random() < 0.4
        self.sent: list[Sent] = []
        self.offsets: list[int] = []
        """The position of each batch."""
        self.high_watermark = self.start = 0
        self.horizons: dict[int, int] = {}
        """The time until which a tombstone that a round has read must stay, by offset."""
        self.rounds = 0
        self.open()
        self.begin_reader()

    def open(self) -> None:
        self.logs = LogManager(
            [f"{self.root}/data"],
            UnsyncedStorage(),
            self.config,
            self.clock,
            cluster_id="cluster",
            node_id=1,
            producer_expiration_ms=MAX_LONG,
        )
        self.logs.load()
        self.log = self.logs.get_or_create(TP, TOPIC_ID, self.config)
        self.log.update_high_watermark(self.high_watermark)
        self.cleaner = Cleaner(self.logs, self.clock, Throttle(), lambda work: work())

    # Events

    def step(self) -> None:
        deeds = [self.write] * 10 + [self.plain] * 5 + [self.end] * 8 + [self.clean] * 6 + [self.pause] * 3
        deeds += [self.advance] * 4 + [self.configure, self.truncate, self.restart, self.kill, self.delete_records]
        self.choice.choice(deeds)()
        self.read()

    def run(self, steps: int) -> None:
        """Takes `steps` random steps, ends all transactions, compacts twice more, then checks the result."""
        for _ in range(steps):
            self.step()
        for producer in range(PRODUCERS):
            if self.state_of(producer)[2] is not None:
                self.end(producer)
        for _ in range(2):
            self.advance_to(self.log.log_end_offset)
            self.log.roll(self.clock.now_ms())
            self.clean()
            self.clock.advance(70_000)
        self.check()

    def append(self, data: bytes, sent: Sent, **options: object) -> None:
        self.offsets.append(self.log.log_end_offset)
        self.sent.append(sent)
        info = self.log.append_as_leader(bytearray(data), 0, self.clock.now_ms(), **options)
        assert (info.first_offset, info.duplicate) == (self.offsets[-1], False)

    def records(self) -> tuple[Written, ...]:
        first = self.log.log_end_offset
        values = [self.choice.choice((b"v%d" % (first + n), None, b"w" * 40)) for n in range(self.choice.randint(1, 3))]
        return tuple(Written(first + n, self.choice.choice(self.keys), value) for n, value in enumerate(values))

    def build(self, records: tuple[Written, ...], **options: object) -> bytes:
        builder = Builder(codec=self.choice.choice((0, 0, 4)), **options)
        for _, key, value in records:
            builder.append(self.clock.now_ms(), key, value)
        return bytes(builder.build())

    def state_of(self, producer: int) -> tuple[int, int, int | None, int]:
        """Returns the epoch, the next sequence, the open transaction, and the number of the next transaction."""
        epoch, sequence, open_one, number = 0, 0, None, 0
        for sent in self.sent:
            if sent.producer == producer:
                if sent.epoch > epoch:
                    epoch, sequence = sent.epoch, 0
                if sent.committed is not None:
                    open_one, number = None, sent.transaction + 1
                else:
                    sequence, open_one = sent.last_sequence + 1, sent.transaction
        return epoch, sequence, open_one, number

    def write(self) -> None:
        producer = self.choice.randrange(PRODUCERS)
        epoch, sequence, open_one, number = self.state_of(producer)
        records = self.records()
        data = self.build(
            records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        self.append(data, Sent(producer, epoch, sequence, records, number if open_one is None else open_one))

    def end(self, producer: int | None = None) -> None:
        producer = self.choice.randrange(PRODUCERS) if producer is None else producer
        epoch, sequence, open_one, _ = self.state_of(producer)
        if open_one is None:
            return
        committed = self.choice.random() < 0.6
        version = 2 if self.bumps_epochs else 0
        epoch += self.bumps_epochs
        data = markers.encode(EndTxnMarker(producer, epoch, 0, committed, version), self.clock.now_ms())
        sent = Sent(producer, epoch, sequence, (), open_one, committed)
        self.append(data, sent, origin=Origin.COORDINATOR, transaction_version=version)

    def plain(self) -> None:
        records = self.records()
        self.append(self.build(records), Sent(PLAIN, -1, -1, records))

    def advance(self) -> None:
        """Advances the high watermark to the log's end, or to an earlier batch."""
        end = self.log.log_end_offset
        earlier = [offset for offset in self.offsets if offset >= self.high_watermark]
        self.advance_to(end if self.choice.random() < 0.7 or not earlier else self.choice.choice(earlier))

    def advance_to(self, offset: int) -> None:
        self.high_watermark = self.log.update_high_watermark(offset)

    def pause(self) -> None:
        self.clock.advance(self.choice.choice(PAUSES_MS))

    def configure(self) -> None:
        self.config = replace(self.config, delete_retention_ms=self.choice.choice(RETENTIONS_MS))
        self.log.config = self.config

    def truncate(self) -> None:
        offset = self.choice.randint(self.high_watermark, self.log.log_end_offset)
        self.log.truncate_to(offset, self.clock.now_ms())
        while self.offsets and self.offsets[-1] >= self.log.log_end_offset:
            self.offsets.pop()
            self.sent.pop()

    def restart(self) -> None:
        self.advance_to(self.log.log_end_offset)
        self.logs.close()
        self.open()
        self.check()

    def kill(self) -> None:
        self.advance_to(self.log.log_end_offset)
        self.logs.checkpoint_log_start_offsets()
        self.log.files.release()
        self.open()
        self.check()

    def delete_records(self) -> None:
        if self.choice.random() < 0.2:
            self.log.raise_log_start_offset(self.choice.randint(self.log.log_start_offset, self.high_watermark))
            self.start = self.log.log_start_offset

    def clean(self) -> None:
        if self.choice.random() < 0.5:
            self.log.roll(self.clock.now_ms())
        if self.cleaner.clean_next(RESOURCES, Interruption()):
            self.rounds += 1
            self.note_horizons()
            self.check()
        assert not self.cleaner.uncleanable

    def note_horizons(self) -> None:
        """Notes that a round has just read everything below ``clean_offset``."""
        now_ms = self.clock.now_ms()
        due = {offset for offset, horizon in self.horizons.items() if horizon <= now_ms}
        left = {record.offset for record in self.everything()} & due
        assert not left, f"tombstones {sorted(left)} have had their time and are still there"
        for record in self.committed():
            if record.value is None and record.offset < self.log.clean_offset:
                self.horizons.setdefault(record.offset, now_ms + self.config.delete_retention_ms)

    # Readers

    def begin_reader(self) -> None:
        self.reader = Reader(self.log)
        self.began_ms, self.least_ms = self.clock.now_ms(), self.config.delete_retention_ms

    def read(self) -> None:
        """Reads a page now and then. At the end, the consumer must have the values of the model."""
        self.least_ms = min(self.least_ms, *self.horizons_left(), self.config.delete_retention_ms)
        if self.choice.random() < 0.5 and not self.reader.read(self.log):
            if self.clock.now_ms() - self.began_ms < self.least_ms:
                begun = [record for record in self.committed(0) if record.offset < self.reader.offset]
                self.compare(self.reader.values(), begun, tolerates=self.deleted_below_start())
            self.begin_reader()

    def horizons_left(self) -> Iterator[int]:
        """Yields for how long, after the reader's beginning, each tombstone stays that the reader must see."""
        return (horizon - self.began_ms for horizon in self.horizons.values() if horizon > self.began_ms)

    def deleted_below_start(self) -> frozenset[bytes]:
        """Returns the keys whose records DeleteRecords removed: a consumer may have read them before, or not."""
        return frozenset(record.key for record in self.committed(0) if record.offset < self.start)

    def everything(self) -> list[Written]:
        reader = Reader(self.log, self.choice.choice((200, 1000, 1 << 20)))
        while reader.read(self.log):
            pass
        return reader.seen

    # Invariants

    def committed(self, start: int | None = None) -> list[Written]:
        """Returns the records that a read_committed consumer would see without compaction."""
        start = self.start if start is None else start
        fates = {(sent.producer, sent.transaction): sent.committed for sent in self.sent if sent.committed is not None}
        stable = self.log.last_stable_offset
        return [
            record
            for sent in self.sent
            if sent.records and (sent.producer == PLAIN or fates.get((sent.producer, sent.transaction)))
            for record in sent.records
            if start <= record.offset < stable
        ]

    def check(self) -> None:
        seen, written = self.everything(), self.committed()
        offsets = [record.offset for record in seen]
        assert offsets == sorted(set(offsets))
        by_offset = {record.offset: record for record in written}
        for record in seen:
            assert by_offset.get(record.offset) == record, f"{record} was never committed"
        self.check_missing(written, set(offsets))
        clean = [record.key for record in seen if record.offset < self.log.clean_offset]
        assert len(clean) == len(set(clean)), f"a key stands twice below {self.log.clean_offset}: {clean}"
        self.compare({record.key: record.value for record in seen}, written)

    def check_missing(self, written: list[Written], offsets: set[int]) -> None:
        last = {record.key: record.offset for record in written}
        now_ms = self.clock.now_ms()
        for record in written:
            is_superseded = record.offset < self.log.clean_offset and last[record.key] != record.offset
            is_old = record.value is None and self.horizons.get(record.offset, MAX_LONG) <= now_ms
            if record.offset not in offsets:
                assert is_superseded or is_old or last[record.key] != record.offset, f"{record} is missing"
                assert record.offset < self.log.clean_offset or is_old, f"{record} is gone from the dirty part"

    def compare(
        self, values: Mapping[bytes, bytes | None], written: list[Written], tolerates: frozenset[bytes] = frozenset()
    ) -> None:
        expected = {record.key: record.value for record in written}
        for key in (values.keys() | expected.keys()) - tolerates:
            assert values.get(key) == expected.get(key), f"{key!r} is {values.get(key)!r}, not {expected.get(key)!r}"
