from collections.abc import Sequence
from typing import Any, final

from typing_extensions import Buffer

from cy.consume.value_reader import Reader

class LegacyBatch(ValueError):
    """A batch of message format 0 or 1, which the SDK does not read."""

@final
class Chunk:
    """Parsed records of one partition, for ``Records``."""

    topic: str
    partition: int
    count: int
    size: int
    """The uncompressed bytes of the records in their batches."""

@final
class Fetched:
    """The fetched batches of a partition, and how much of them was taken."""

    topic: str
    partition: int
    next_offset: int
    """The next offset to take. It counts markers and aborted records."""
    end_offset: int
    """The offset after the last whole batch; the fetched offset if there is none."""
    last_epoch: int
    """The leader epoch of the last whole batch, -1 if there is none."""
    batch_epoch: int
    """The leader epoch of the batch that was read last, -1 before the first."""
    size: int
    """The size in bytes of what was fetched."""
    is_readable: bool
    """True if it begins with a batch of format 2, or is too short to tell."""
    is_done: bool
    state: Any
    turn: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        records: Buffer,
        *,
        aborted: Sequence[tuple[int, int]] = (),
        check_crcs: bool = True,
        key_reader: Reader | None = None,
        value_reader: Reader | None = None,
        max_inflated: int = 0,
    ) -> None:
        """``records`` has v2 batches, of which the last may be incomplete. Records before ``offset`` are skipped.

        ``aborted`` has (producer id, first offset) of each aborted transaction in them (read_committed).
        ``max_inflated`` is the limit of a batch's decompressed bytes, if it is more than
        ``cy.batch.compression.output_limit``.
        """
    def take(
        self, limit: int, until: int = ..., most: int = ..., is_first_free: bool = True
    ) -> Chunk | None:
        """Returns the next records before offset ``until``, None if there are none. Releases the GIL.

        Returns at most ``limit`` records and ``most`` bytes; with ``is_first_free``, the first record may be larger.
        Raises ``CorruptBatch`` if a CRC does not match or the bytes are not a batch, and ``InvalidBatch`` if a record
        cannot be parsed. Raises ``LegacyBatch``, and ``CompressionError`` if a batch cannot be decompressed or becomes
        too large. Earlier calls return the records before the faulty batch.
        """
