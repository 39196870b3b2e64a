"""The marker that ends a transaction in the log: a control batch of one record (KIP-98).

    key    int16 version (0), int16 type: 0 ABORT, 1 COMMIT
    value  int16 version (0), int32 epoch of the coordinator that wrote it

The batch names the producer and is transactional. It takes an offset, and every partition of the
transaction gets one. With transactions v2 (KIP-890) its epoch is one more than that of the
transaction's records: the producer continues in that epoch.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from cy.batch import HEADER_SIZE, Builder, iterate
from pybroker.log.files.storage import Bytes

VERSION = 0
ABORT, COMMIT = 0, 1

_key = struct.Struct(">hh")
_value = struct.Struct(">hi")

_SIZE = HEADER_SIZE + 17
_usual = struct.Struct(">BhhBhiB")
_USUAL_AT = HEADER_SIZE + 4
_KEY_LENGTH, _VALUE_LENGTH = _key.size << 1, _value.size << 1


class EndTxnMarker(NamedTuple):
    """A marker that a transaction coordinator wants to write.

    ``coordinator_epoch`` is the leader epoch of the coordinator's partition of ``__transaction_state``.
    ``transaction_version`` is 2 if each transaction bumps the producer's epoch (KIP-890). Then the check
    for late markers is strict (KIP-1228). The version is not in the log.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class Marker(NamedTuple):
    """The content of a marker's control record; ``kind`` is ABORT or COMMIT."""

    kind: int
    coordinator_epoch: int


def encode(marker: EndTxnMarker, now_ms: int) -> bytes:
    """Returns the marker's control batch, with the timestamp ``now_ms``."""
    batch = Builder(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )
    kind = COMMIT if marker.committed else ABORT
    batch.append(now_ms, _key.pack(VERSION, kind), _value.pack(VERSION, marker.coordinator_epoch))
    return batch.build()


def decode(records: Bytes) -> Marker | None:
    """Returns the marker in a control batch; None for other control records or a batch that compaction has emptied.

    It does not check the CRC. Raises CorruptBatch, InvalidBatch.
    """
    if len(records) == _SIZE:  # the usual form, in which every varint is one byte
        key_length, _, kind, value_length, _, epoch, _ = _usual.unpack_from(records, _USUAL_AT)
        if key_length == _KEY_LENGTH and value_length == _VALUE_LENGTH and kind in (ABORT, COMMIT):
            return Marker(kind, epoch)
    for record in iterate(records, check_crcs=False):
        if record.key is None or len(record.key) < _key.size:
            return None
        _, kind = _key.unpack_from(record.key)
        if kind not in (ABORT, COMMIT) or record.value is None or len(record.value) < _value.size:
            return None
        _, coordinator_epoch = _value.unpack_from(record.value)
        return Marker(kind, coordinator_epoch)
    return None
