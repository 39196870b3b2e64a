from typing import Final, final

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

class CorruptBatch(ValueError):
    """The bytes are not a batch, or the CRC does not match (CORRUPT_MESSAGE)."""

class InvalidBatch(ValueError):
    """The batch is whole and breaks a rule (INVALID_RECORD, or INVALID_TIMESTAMP if ``timestamp`` is true)."""

    record_errors: list[tuple[int, str]]
    """(index in the batch, reason) of each faulty record (KIP-467); empty if the whole batch is faulty."""
    timestamp: bool

@final
class Batch:
    """The header of a record batch. A message of format v0 or v1 counts as a batch; fields that it lacks are -1."""

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
        """The position behind the batch: ``position + size``."""
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
        """The time from which tombstones and markers of the batch may be removed (KIP-534), ``None`` if it is not
        set.
        """
    @property
    def last_sequence(self) -> int:
        """The sequence of the last record (wraps from 2^31-1 to 0), -1 without sequences."""

def read_header(buffer: Buffer, position: int = 0) -> Batch:
    """Returns the header at ``position``: 61 bytes, in formats v0 and v1 26. The batch itself may be incomplete.

    Raises ``CorruptBatch`` for too few bytes, or an impossible size or magic.
    """

def check_crc(buffer: Buffer, position: int, batch: Batch) -> bool:
    """Returns True if the batch at ``position`` with the header ``batch`` is whole and its CRC matches."""

def scan(
    buffer: Buffer, position: int = 0, end: int | None = None, *, check_crcs: bool = False
) -> list[Batch]:
    """Returns the headers of the whole batches from ``position`` to ``end`` (default: the buffer's end).

    Stops, without an error, before an incomplete or impossible batch, with ``check_crcs`` also before one whose CRC
    does not match. All batches are sound if the last one's ``end`` is ``end``.
    """

def assign(buffer: Buffer, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into the batch in the writable ``buffer``; the CRC does not cover them."""

def set_log_append_time(buffer: Buffer, timestamp_ms: int) -> None:
    """Gives all records of the batch in the writable ``buffer`` the timestamp ``timestamp_ms``, with a new CRC."""

def set_max_timestamp(buffer: Buffer, timestamp_ms: int) -> None:
    """Corrects the header's greatest timestamp of the batch in the writable ``buffer``, with a new CRC."""
