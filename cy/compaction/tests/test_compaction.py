"""The parts of compaction that work on bytes: hash, maps, key scanner, batch filter, indexes."""

from __future__ import annotations

import random
import struct
from contextlib import nullcontext

import pytest

from cy.batch import Builder, CorruptBatch, InvalidBatch, iterate, scan
from cy.batch.aborted_transactions import AbortedTransactions
from cy.batch.whole_batches import measure
from cy.compaction.batch_filter import BatchFilter
from cy.compaction.key_scanner import KeyScanner
from cy.compaction.offset_map import OffsetMap
from cy.compaction.segment_indexer import SegmentIndexer
from cy.compaction.siphash import siphash
from cy.int64_map import Int64Map

SECRET = bytes(range(16))
NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (2, "8177228da4a45dc7fca38bdef60affe4"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
        (63, "5150d1772f50834a503e069a973fbd7c"),
    ],
)
def test_siphash_gives_the_published_values(length, expected):
    assert siphash(bytes(range(length)), SECRET).hex() == expected


def test_an_int64_map_behaves_like_a_dict():
    choice = random.Random(1)
    found, model = Int64Map(), {}
    for _ in range(20_000):
        key = choice.choice((choice.randint(-50, 500), choice.getrandbits(63)))
        if choice.random() < 0.4:
            assert found.discard(key) == (model.pop(key, None) is not None)
        else:
            model[key] = choice.randint(-(1 << 63), (1 << 63) - 1)
            found.set(key, model[key])
        assert len(found) == len(model)
    assert all(found.get(key) == value for key, value in model.items())
    assert found.get(1 << 62) is None


def test_an_offset_map_behaves_like_a_dict_until_it_is_full():
    offsets = OffsetMap(24 * 1000, 0.9, SECRET)
    assert offsets.limit == 900
    model = {}
    for number in range(900):
        model[b"%d" % (number * 7)] = number
        assert offsets.set(b"%d" % (number * 7), number)
    assert not offsets.set(b"another", 1)
    assert not offsets.set(b"0", 1)
    assert all(offsets.get(key) == offset for key, offset in model.items())
    assert offsets.get(b"another") is None


def test_an_offset_map_keeps_the_latest_offset_of_a_key():
    offsets = OffsetMap(1000, 0.9, SECRET)
    offsets.set(b"", 5)
    offsets.set(b"", 9)
    assert (offsets.get(b""), len(offsets)) == (9, 1)


def batch(*records, base=0, **options) -> bytes:
    builder = Builder(**options)
    for key, value in records:
        builder.append(NOW, key, value)
    return builder.build(base, 0)


def scanned(data: bytes, first: int = 0, size: int = 24 * 1000) -> tuple[OffsetMap, KeyScanner]:
    offsets = OffsetMap(size, 0.9, SECRET)
    scanner = KeyScanner(offsets, AbortedTransactions(b""), first)
    scanner.scan(data)
    return offsets, scanner


def filtered(data: bytes, offsets: OffsetMap, latest: int, *, last=(), is_end=False, now=NOW) -> bytes:
    kept = BatchFilter(
        offsets, AbortedTransactions(b""), Int64Map(last), latest=latest, now_ms=now, delete_retention_ms=1000
    )
    kept.filter(data, is_end)
    return bytes(memoryview(kept))


@pytest.mark.parametrize("codec", range(5))
def test_keys_are_scanned_from_the_first_dirty_offset(codec):
    data = batch((b"a", b"1"), (b"b", b"2"), codec=codec) + batch((b"a", b"3"), base=2, codec=codec)
    offsets, scanner = scanned(data, first=1)
    assert (offsets.get(b"a"), offsets.get(b"b"), scanner.latest) == (2, 1, 2)


@pytest.mark.parametrize("codec", range(5))
def test_a_large_record_of_a_compressed_batch_is_refused(codec):
    data = batch((b"a", b"1"), (b"b", bytes(1000)), codec=codec)
    offsets = OffsetMap(24 * 1000, 0.9, SECRET)
    scanner = KeyScanner(offsets, AbortedTransactions(b""), 0, 1000)
    bounds = {"latest": 1, "now_ms": NOW, "delete_retention_ms": 1000, "max_record": 1000}
    kept = BatchFilter(offsets, AbortedTransactions(b""), Int64Map(), **bounds)
    with pytest.raises(InvalidBatch, match="exceeds") if codec else nullcontext():
        scanner.scan(data)
    with pytest.raises(InvalidBatch, match="exceeds") if codec else nullcontext():
        kept.filter(data, False)


def test_a_full_map_covers_whole_batches_only():
    data = b"".join(batch(*((b"%d" % (base + n), b"") for n in range(3)), base=base) for base in range(0, 30, 3))
    _, scanner = scanned(data, size=24 * 10)
    assert scanner.is_full
    assert scanner.latest == 8


@pytest.mark.parametrize("codec", range(5))
def test_compaction_removes_superseded_records_and_keeps_offsets(codec):
    data = batch(*((b"%d" % (n % 3), b"%d" % n) for n in range(10)), codec=codec, base=100)
    offsets, _ = scanned(data)
    found = filtered(data, offsets, 109)
    (header,) = scan(found, check_crcs=True)
    assert (header.base_offset, header.last_offset, header.count, header.codec) == (100, 109, 3, codec)
    assert [(r.offset, r.value) for r in iterate(found)] == [(107, b"7"), (108, b"8"), (109, b"9")]


@pytest.mark.parametrize("codec", range(5))
def test_a_tombstone_sets_the_delete_horizon_of_its_batch_and_keeps_timestamps(codec):
    data = batch((b"a", None), (b"b", b"x" * 70), codec=codec)
    offsets, _ = scanned(data)
    found = filtered(data, offsets, 1)
    (header,) = scan(found, check_crcs=True)
    assert header.delete_horizon_ms == NOW + 1000
    assert [(r.timestamp, r.key, r.value) for r in iterate(found)] == [(NOW, b"a", None), (NOW, b"b", b"x" * 70)]
    assert filtered(found, offsets, 1, now=NOW + 999) == found
    assert [r.key for r in iterate(filtered(found, offsets, 1, now=NOW + 1000))] == [b"b"]


def test_records_that_the_map_does_not_cover_are_unchanged():
    data = batch((b"a", None), (b"a", b"1"))
    offsets, _ = scanned(data)
    assert filtered(data, offsets, -1) == data


def test_the_last_batch_is_kept_without_records():
    data = batch((b"a", b"1"), codec=4) + batch((b"a", b"2"), base=1, codec=4)
    offsets, _ = scanned(data)
    offsets.set(b"a", 5)
    found = filtered(data, offsets, 5, is_end=True)
    (header,) = scan(found, check_crcs=True)
    assert (header.base_offset, header.last_offset, header.count, header.size, header.codec) == (1, 1, 0, 61, 0)
    assert filtered(data, offsets, 5) == b""


def test_a_marker_without_records_is_removed_after_its_delete_horizon():
    data = batch((b"\0\0\0\1", b"\0\0\0\0\0\0"), producer_id=1, producer_epoch=0, transactional=True, control=True)
    offsets, _ = scanned(data)
    dated = filtered(data, offsets, 0)
    assert scan(dated, check_crcs=True)[0].delete_horizon_ms == NOW + 1000
    assert filtered(dated, offsets, 0, now=NOW + 1000) == b""
    (kept,) = scan(filtered(dated, offsets, 0, last=[(1, -2)], now=NOW + 1000))
    assert (kept.is_control, kept.count) == (True, 0)


def test_an_aborted_transaction_stays_in_the_index_as_long_as_its_marker():
    entry = struct.pack(">hqqqq", 0, 1, 0, 1, 2)
    data = batch((b"a", b"1"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    end = batch(
        (b"\0\0\0\0", b"\0\0\0\0\0\0"), base=1, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    transactions = AbortedTransactions(entry)
    kept = BatchFilter(
        OffsetMap(1000, 0.9, SECRET), transactions, Int64Map(), latest=1, now_ms=NOW, delete_retention_ms=0
    )
    kept.filter(data + end, False)
    assert bytes(memoryview(kept)) == end
    assert transactions.take_kept() == entry
    assert transactions.take_kept() == b""


@pytest.mark.parametrize("codec", [0, 3])
def test_damage_anywhere_is_refused(codec):
    """Each byte of a batch is changed in turn: nothing crashes, and no key is taken."""
    data = batch((b"a", b"1"), (b"b", None), codec=codec)
    offsets, _ = scanned(data)
    for position in range(12, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        if position in range(12, 16):  # the leader epoch, which no CRC covers
            continue
        with pytest.raises((CorruptBatch, InvalidBatch)):
            scanned(bytes(damaged))
        with pytest.raises((CorruptBatch, InvalidBatch)):
            filtered(bytes(damaged), offsets, 1)


def test_random_records_under_a_right_crc_never_run_past_the_batch():
    """Bytes that claim to be records, in a batch whose header is sound."""
    from cy.crc32c import crc32c

    choice = random.Random(2)
    offsets = OffsetMap(24 * 1000, 0.9, SECRET)
    for _ in range(3000):
        body = bytes(choice.choice((0, 1, 2, 3, 6, 14, 128, 255, choice.randint(0, 255))) for _ in range(40))
        data = bytearray(batch((b"a", b"1"))[:61] + body)
        data[57:61] = choice.randint(0, 9).to_bytes(4, "big")
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
        for work in (lambda data=data: scanned(bytes(data)), lambda data=data: filtered(bytes(data), offsets, 9)):
            try:
                work()
            except (CorruptBatch, InvalidBatch):
                continue


def test_the_output_is_not_changed_while_it_is_read():
    data = batch((b"a", b"1"))
    kept = BatchFilter(
        OffsetMap(1000, 0.9, SECRET), AbortedTransactions(b""), Int64Map(), latest=-1, now_ms=0, delete_retention_ms=0
    )
    kept.filter(data, False)
    with memoryview(kept), pytest.raises(BufferError):
        kept.clear()
    kept.clear()
    assert len(kept) == 0


def test_a_piece_of_a_segment_ends_with_its_last_whole_batch():
    data = batch((b"a", b"1")) + batch((b"b", b"2" * 100), base=1)
    first = len(batch((b"a", b"1")))
    assert measure(data) == (len(data), 0, False)
    assert measure(data[:-1]) == (first, len(data) - first, False)
    assert measure(data[:10]) == (0, 0, False)
    with pytest.raises(CorruptBatch):
        measure(data[:first] + bytes(100))


def test_offsets_that_do_not_ascend_are_not_indexed():
    indexer = SegmentIndexer(0, 100)
    indexer.add(batch((b"a", b"1"), base=5))
    with pytest.raises(CorruptBatch):
        indexer.add(batch((b"a", b"1"), base=5))
