"""Well-formed requests that cost as much as their bytes allow, and small random ones.

Each is a hand-made frame with its length, in a version that packs most into few bytes.
"""

from __future__ import annotations

import random
import struct
import time
import zlib
from collections.abc import Callable, Iterator

import zstandard

from conformance.data import batches
from conformance.data.batches import GZIP, ZSTD
from conformance.data.bombs import bomb
from harness.protocol.wire_client import encode_request, framed, request_header

MIB = 1 << 20
UNPACKED = 31 * MIB
"""A broker lets every batch unpack to a little more than this, however small the batch is."""
Maker = Callable[[str, int], bytes]
"""``make(topic, size)``: a request of about ``size`` bytes."""


def text(value: str) -> bytes:
    """Encodes a string of a version that is not flexible."""
    return struct.pack(">h", len(value)) + value.encode()


def unsigned(value: int) -> bytes:
    """Encodes an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def request(key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
    """Builds the frame of a request."""
    return framed(request_header(key, version) + (b"\0" if flexible else b"") + body)


def array(item: bytes, size: int) -> bytes:
    """Repeats an item as often as ``size`` bytes allow."""
    count = max(1, size // len(item))
    return struct.pack(">i", count) + item * count


def compact_array(item: bytes, size: int) -> bytes:
    """Repeats an item as ``array`` does, in a flexible version."""
    count = max(1, size // len(item))
    return unsigned(count + 1) + item * count


def packed_batch(codec: int) -> bytes:
    """Returns a valid, small batch of one record that unpacks to ``UNPACKED`` bytes."""
    head = b"\0\0\0" + batches.varint(-1) + batches.varint(UNPACKED)
    records = batches.varint(len(head) + UNPACKED + 1) + head + bytes(UNPACKED) + b"\0"
    packed = zlib.compress(records, 9, wbits=31) if codec == GZIP else zstandard.compress(records, 19)
    return batches.batch([b"x"], codec=codec, payload=packed)


def produce(topic: str, size: int, batch: bytes) -> bytes:
    """Builds a Produce request that names the same partition again and again."""
    item = struct.pack(">ii", 0, len(batch)) + batch
    body = struct.pack(">hhi", -1, 1, 30_000) + struct.pack(">i", 1) + text(topic) + array(item, size)
    return request(0, 7, body)


def produce_zstd(topic: str, size: int) -> bytes:
    return produce(topic, size, packed_batch(ZSTD))


def produce_gzip(topic: str, size: int) -> bytes:
    return produce(topic, size, packed_batch(GZIP))


def produce_bombs(topic: str, size: int) -> bytes:
    return produce(topic, size, bomb(GZIP))


def produce_nothing(topic: str, size: int) -> bytes:
    return produce(topic, size, b"")


def metadata_empty(topic: str, size: int) -> bytes:
    return request(3, 9, compact_array(b"\1\0", size) + b"\0\0\0\0", flexible=True)


def metadata_names(topic: str, size: int) -> bytes:
    count = size // 12
    names = b"".join(text(f"no-{number:07}") for number in range(count))
    return request(3, 4, struct.pack(">i", count) + names + b"\0")


def fetch(topic: str, size: int) -> bytes:
    item = struct.pack(">iqi", 0, 0, 1)
    head = struct.pack(">iiiib", -1, 100, 0, MIB, 0)
    return request(1, 4, head + struct.pack(">i", 1) + text(topic) + array(item, size))


def fetch_many(topic: str, size: int) -> bytes:
    count = size // 16
    items = b"".join(struct.pack(">iqi", number, 0, 1) for number in range(count))
    head = struct.pack(">iiiib", -1, 100, 0, MIB, 0) + struct.pack(">i", 1) + text(topic)
    return request(1, 4, head + struct.pack(">i", count) + items)


def list_offsets(topic: str, size: int) -> bytes:
    item = struct.pack(">iq", 0, 1)
    return request(2, 2, struct.pack(">ib", -1, 0) + struct.pack(">i", 1) + text(topic) + array(item, size))


def offset_commit(topic: str, size: int) -> bytes:
    item = struct.pack(">iqh", 0, 1, -1)
    head = text("g") + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
    return request(8, 2, head + struct.pack(">i", 1) + text(topic) + array(item, size))


def offset_fetch(topic: str, size: int) -> bytes:
    return request(9, 3, text("g") + struct.pack(">i", 1) + text(topic) + array(struct.pack(">i", 7), size))


def find_coordinator(topic: str, size: int) -> bytes:
    return request(10, 4, b"\0" + compact_array(b"\2g", size) + b"\0", flexible=True)


def join_group(topic: str, size: int) -> bytes:
    head = text("g") + struct.pack(">ii", 10_000, 10_000) + text("") + text("consumer")
    return request(11, 2, head + array(text("p") + struct.pack(">i", 0), size))


def leave_group(topic: str, size: int) -> bytes:
    return request(13, 3, text("g") + array(text("m") + struct.pack(">h", -1), size))


def describe_groups(topic: str, size: int) -> bytes:
    return request(15, 1, array(text("g"), size))


def create_topics(topic: str, size: int) -> bytes:
    item = text("bad name") + struct.pack(">ihii", 1, 1, 0, 0)
    return request(19, 2, array(item, size) + struct.pack(">i?", 1000, True))


def delete_topics(topic: str, size: int) -> bytes:
    return request(20, 1, array(text("none"), size) + struct.pack(">i", 1000))


def delete_records(topic: str, size: int) -> bytes:
    item = struct.pack(">iq", 0, 0)
    return request(21, 1, struct.pack(">i", 1) + text(topic) + array(item, size) + struct.pack(">i", 1000))


def offsets_of_epochs(topic: str, size: int) -> bytes:
    item = struct.pack(">iii", 0, -1, 0)
    return request(23, 2, struct.pack(">i", 1) + text(topic) + array(item, size))


def add_partitions(topic: str, size: int) -> bytes:
    head = text("t") + struct.pack(">qh", 1, 0) + struct.pack(">i", 1) + text(topic)
    return request(24, 1, head + array(struct.pack(">i", 0), size))


def markers(topic: str, size: int) -> bytes:
    indexes = compact_array(struct.pack(">i", 0), size)
    item = struct.pack(">qh?", 7, 0, True) + b"\2" + unsigned(len(topic) + 1) + topic.encode() + indexes + b"\0"
    return request(27, 1, b"\2" + item + struct.pack(">i", 0) + b"\0\0", flexible=True)


def describe_configs(topic: str, size: int) -> bytes:
    item = b"\2" + text(topic) + struct.pack(">i", -1)
    return request(32, 1, array(item, size) + b"\0")


def alter_configs(topic: str, size: int) -> bytes:
    item = b"\2" + text("none") + struct.pack(">i", 0)
    return request(33, 1, array(item, size) + b"\1")


def move_replicas(topic: str, size: int) -> bytes:
    head = struct.pack(">i", 1) + text("/nowhere") + struct.pack(">i", 1) + text(topic)
    return request(34, 1, head + array(struct.pack(">i", 0), size))


def log_dirs(topic: str, size: int) -> bytes:
    return request(35, 1, struct.pack(">i", 1) + text(topic) + array(struct.pack(">i", 0), size))


def elect(topic: str, size: int) -> bytes:
    head = b"\0" + struct.pack(">i", 1) + text(topic)
    return request(43, 1, head + array(struct.pack(">i", 0), size) + struct.pack(">i", 1000))


def delete_groups(topic: str, size: int) -> bytes:
    return request(42, 0, array(text("g"), size))


def heartbeat(topic: str, size: int) -> bytes:
    names = compact_array(b"\2t", size)
    head = b"\2g\2m" + struct.pack(">i", 0) + b"\0\0" + struct.pack(">i", 1000)
    return request(68, 1, head + names + b"\0\0\1\0", flexible=True)


def tags(topic: str, size: int) -> bytes:
    count = size // 3
    return request(18, 3, b"\2a\2b" + unsigned(count) + b"\x7f\1x" * count, flexible=True)


def header_tags(topic: str, size: int) -> bytes:
    count = size // 3
    return framed(request_header(18, 3) + unsigned(count) + b"\x7f\1x" * count + b"\2a\2b\0")


def small_ones(topic: str, size: int) -> bytes:
    """Packs as many small requests as fit."""
    one = encode_request("Metadata", 4, {"topics": None, "allow_auto_topic_creation": False})
    return one * max(1, size // len(one))


LARGE: dict[str, Maker] = {
    make.__name__.replace("_", " "): make
    for make in (
        produce_zstd,
        produce_gzip,
        produce_bombs,
        produce_nothing,
        metadata_empty,
        metadata_names,
        fetch,
        fetch_many,
        list_offsets,
        offset_commit,
        offset_fetch,
        find_coordinator,
        join_group,
        leave_group,
        describe_groups,
        create_topics,
        delete_topics,
        delete_records,
        offsets_of_epochs,
        add_partitions,
        markers,
        describe_configs,
        alter_configs,
        move_replicas,
        log_dirs,
        elect,
        delete_groups,
        heartbeat,
        tags,
        header_tags,
        small_ones,
    )
}


def small(topic: str, seed: int, count: int) -> Iterator[bytes]:
    """Returns ``count`` frames of all kinds of requests; some have changed, missing or additional bytes."""
    dice = random.Random(seed)
    plain = [make(topic, size) for name, make in LARGE.items() if name != "produce bombs" for size in (1, 100, 3000)]
    for _ in range(count):
        data = bytearray(dice.choice(plain))
        for _ in range(dice.choice((0, 1, 1, 2, 8))):
            data[dice.randrange(4, len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        if dice.random() < 0.1:
            del data[dice.randrange(8, len(data) + 1) :]
        struct.pack_into(">i", data, 0, len(data) - 4 if dice.random() < 0.98 else dice.randrange(-9, 1 << 30))
        yield bytes(data)


def deadline(seconds: float) -> float:
    """Returns a deadline on the monotonic clock."""
    return time.monotonic() + seconds
