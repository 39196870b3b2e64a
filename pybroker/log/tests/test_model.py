"""Random operations on a log and on a list that models it."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.config.log_config import LogConfig
from pybroker.log.expiry import apply_retention
from pybroker.log.log import Log
from pybroker.log.tests.helpers import NOW, UnsyncedStorage, batch, contents, idempotent, open_log

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)

operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("idempotent"), st.integers(1, 3)),
        st.tuples(st.just("truncate"), st.floats(0, 1)),
        st.tuples(st.just("delete"), st.floats(0, 1)),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("distrust"), st.none()),
        st.tuples(st.just("read"), st.floats(0, 1)),
    ),
    max_size=40,
)


class Pair:
    """A log and the list of its batches: (base offset, values)."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.log: Log = open_log(root, CONFIG, storage=UnsyncedStorage())
        self.batches: list[tuple[int, list[bytes]]] = []
        self.start = 0
        self.number = 0
        self.sequence: int | None = None

    @property
    def records(self) -> list[tuple[int, bytes]]:
        pairs = [(base + n, value) for base, values in self.batches for n, value in enumerate(values)]
        return [pair for pair in pairs if pair[0] >= self.start]

    def values(self, count: int) -> list[bytes]:
        self.number += count
        return [b"%d" % (self.number + n) + bytes(self.number % 60) for n in range(count)]

    def append(self, count: int) -> None:
        values = self.values(count)
        info = self.log.append_as_leader(batch(*values), 0, NOW)
        self.batches.append((info.first_offset, values))

    def idempotent(self, count: int) -> None:
        values = self.values(count)
        entry = self.log.producers.get(7)
        sequence = entry.next_sequence if entry else 0
        info = self.log.append_as_leader(idempotent(sequence, *values), 0, NOW)
        self.batches.append((info.first_offset, values))
        assert self.log.append_as_leader(idempotent(sequence, *values), 0, NOW).duplicate

    def truncate(self, share: float) -> None:
        offset = self.start + round(share * (self.log.log_end_offset - self.start))
        if offset > self.log.first_segment_offset:
            self.log.truncate_to(offset, NOW)
            self.batches = [b for b in self.batches if b[0] + len(b[1]) <= offset]
            self.start = min(self.start, self.log.log_end_offset)

    def delete(self, share: float) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.start += round(share * (self.log.log_end_offset - self.start))
        self.log.raise_log_start_offset(self.start)
        apply_retention(self.log, NOW)

    def restart(self, clean: bool) -> None:
        if clean:
            self.log.close()
        self.log = open_log(
            self.root,
            CONFIG,
            storage=UnsyncedStorage(),
            clean=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.start,
            high_watermark=self.log.high_watermark,
        )

    def flush(self, _: None) -> None:
        assert self.log.flush() == self.log.log_end_offset

    def distrust(self, _: None) -> None:
        self.log.files.distrust()

    def read(self, share: float) -> None:
        offset = self.start + round(share * (self.log.log_end_offset - self.start))
        part = self.log.read(offset, 300)
        assert (part.size > 0) == (offset < self.log.log_end_offset)


@given(operations)
@settings(max_examples=150, deadline=None)
def test_a_log_behaves_like_a_list_of_records(life):
    with tempfile.TemporaryDirectory() as root:
        pair = Pair(root)
        for name, argument in life:
            getattr(pair, name)(argument)
            end = pair.batches[-1][0] + len(pair.batches[-1][1]) if pair.batches else pair.start
            log = pair.log
            assert log.log_end_offset == max(end, pair.start)
            assert log.log_start_offset == pair.start
            assert log.recovery_point <= log.log_end_offset
        assert contents(pair.log, max_bytes=300) == pair.records
