from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, final

from typing_extensions import Buffer

BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LOG_OVERHEAD: Final = 12
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
COUNT_AT: Final = 57
HEADER_SIZE: Final = 61
MIN_LEGACY_SIZE: Final = 26

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40
KNOWN_FLAGS: Final = 0x7F

MAX_RECORD_ERRORS: Final = 1000
"""No more errors of single records than this are reported for a batch."""

Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]

class CorruptBatch(ValueError):
    """Bytes that are no batch, or whose CRC does not hold (CORRUPT_MESSAGE)."""

class InvalidBatch(ValueError):
    """A whole batch that breaks a rule (INVALID_RECORD, or INVALID_TIMESTAMP where ``timestamp`` is true)."""

    record_errors: list[tuple[int, str]]
    """(index in the batch, reason) of the records at fault (KIP-467); empty where the batch as such is."""
    timestamp: bool

@final
class Batch:
    """The header of a record batch. A message of format v0 or v1 is a batch of its own: fields that it lacks are -1."""

    position: int
    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    records_max_timestamp: int
    """The greatest timestamp of the records, found by ``validate``; ``max_timestamp`` is only what the header claims."""

    @property
    def last_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def end(self) -> int:
        """Position behind the batch: ``position + size``."""
    @property
    def codec(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def is_log_append_time(self) -> bool: ...
    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of the batch may go (KIP-534); ``None`` where none is set."""
    @property
    def last_sequence(self) -> int:
        """Sequence of the last record (wraps from 2^31-1 to 0), -1 without sequences."""

@final
class Record:
    """One record; for LogAppendTime batches ``timestamp`` is the broker's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

def read_header(buffer: Buffer, position: int = 0) -> Batch:
    """The header at ``position``: of 61 bytes, in formats v0 and v1 of 26. The batch itself may be incomplete.

    Raises ``CorruptBatch`` for too few bytes, an impossible size or magic.
    """

def check_crc(buffer: Buffer, position: int, batch: Batch) -> bool:
    """Whether the batch at ``position``, whose header is ``batch``, lies whole in ``buffer`` and its CRC holds."""

def validate(
    buffer: Buffer,
    *,
    require_key: bool = False,
    min_timestamp: int = ...,
    max_timestamp: int = ...,
    allow_control: bool = False,
    max_output: int | None = None,
) -> Batch:
    """Checks that ``buffer`` is exactly one v2 batch that a broker may append, and returns its header.

    ``require_key``: the topic is compacted. Timestamps (ms) of records must lie between the two bounds, -1 excepted.
    ``allow_control``: the batch comes from the broker itself, not from a client. ``max_output`` bounds the decompressed
    size; by default ``compression.output_limit``.
    Raises ``CorruptBatch``, ``InvalidBatch``, ``compression.UnknownCodec``. Releases the GIL for 64 KiB and more.
    """

def assign(buffer: Buffer, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into the batch in the writable ``buffer``; the CRC does not cover them."""

def set_log_append_time(buffer: Buffer, timestamp_ms: int) -> None:
    """Makes ``timestamp_ms`` the time of every record of the batch in the writable ``buffer``, with a new CRC."""

def set_max_timestamp(buffer: Buffer, timestamp_ms: int) -> None:
    """Corrects the header's greatest timestamp of the batch in the writable ``buffer``, with a new CRC."""

def iterate(
    buffer: Buffer, *, max_output: int | None = None, check_crcs: bool = True
) -> Iterator[Record]:
    """The records of the batches (of any format) in ``buffer``, control records among them.

    A batch that the buffer's end cuts is left out, as in a fetch response. ``max_output`` bounds the decompressed size of
    each batch. Raises ``CorruptBatch``, ``InvalidBatch``, ``compression.UnknownCodec``.
    """

def scan(
    buffer: Buffer, position: int = 0, end: int | None = None, *, check_crcs: bool = False
) -> list[Batch]:
    """Headers of the whole batches that follow each other from ``position`` to ``end`` (default: the buffer's).

    Stops, without an error, before the first one that is cut, impossible or (``check_crcs``) whose CRC does not hold:
    everything is sound where the last one's ``end`` is ``end``.
    """

def recompress(buffer: Buffer, codec: int, level: int | None = None, *, max_output: int | None = None) -> bytes:
    """The v2 batch with its records compressed by ``codec``; header otherwise the same, with a new CRC."""

@final
class Builder:
    """Builds one v2 batch; records are compressed, if at all, by ``build``."""

    def __init__(
        self,
        *,
        codec: int = 0,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        log_append_time: bool = False,
    ) -> None: ...
    @property
    def size(self) -> int:
        """Bytes of the batch so far, not compressed."""
    @property
    def count(self) -> int: ...
    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers = (),
        offset_delta: int | None = None,
    ) -> None:
        """Adds a record. ``offset_delta`` must grow; by default it is one more than the last record's."""
    def build(self, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
        """The batch as bytes; the builder may be continued. ``ValueError`` if it is empty."""
