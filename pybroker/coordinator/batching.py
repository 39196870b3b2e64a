"""Turns the records of an event into batches."""

from __future__ import annotations

from collections.abc import Iterator

from cy.batch import Builder
from pybroker.coordinator.shard import Producer, Record

SPLIT_BYTES = 512 << 10


def parts(records: list[Record]) -> Iterator[list[Record]]:
    """Yields the records in parts that each fit into a batch."""
    part: list[Record] = []
    size = 0
    for record in records:
        size += len(record.key) + len(record.value or b"")
        if part and size > SPLIT_BYTES:
            yield part
            part, size = [], len(record.key) + len(record.value or b"")
        part.append(record)
    yield part


def builder(codec: int, producer: Producer | None) -> Builder:
    """Returns an empty batch. With a ``producer``, the batch belongs to that producer's transaction."""
    if producer is None:
        return Builder(codec=codec)
    return Builder(
        codec=codec,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
