from collections.abc import Sequence
from typing import Any, final

from typing_extensions import Buffer

from cy.consume.value_reader import Reader

class LegacyBatch(ValueError):
    """A batch of message format 0 or 1, which the SDK does not read."""

@final
class Chunk:
    """Records of one partition, parsed; ``Records`` shows them."""

    topic: str
    partition: int
    count: int
    size: int
    """Bytes of the records, as they lie in their batches, not compressed."""

@final
class Fetched:
    """What a fetch brought of a partition, and how far it was taken."""

    topic: str
    partition: int
    next_offset: int
    """The position behind what was taken: also behind markers and aborted records."""
    end_offset: int
    """Behind the last whole batch; the offset fetched where there is none."""
    last_epoch: int
    """The leader epoch of the last whole batch, -1 where there is none."""
    batch_epoch: int
    """The leader epoch of the batch that was read last, -1 before the first."""
    size: int
    """In bytes."""
    is_readable: bool
    """Begins with a batch of format 2, or is too short to tell."""
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
        """``records``: whole v2 batches, the last may be cut; records before ``offset`` are passed over.

        ``aborted``: (producer id, first offset) of the aborted transactions in them (read_committed).
        ``max_inflated``: bytes that a compressed batch may become, if that is more than
        ``cy.batch.compression.output_limit`` allows.
        """
    def take(
        self, limit: int, until: int = ..., most: int = ..., is_first_free: bool = True
    ) -> Chunk | None:
        """The next records before offset ``until``, at most ``limit``, and no more than ``most`` bytes, but for
        the first where ``is_first_free``; None when there are no more. Bytes are touched without the GIL.

        Raises ``CorruptBatch`` where the CRC does not hold or there is no batch, ``InvalidBatch``
        where a record does not parse, ``LegacyBatch``, ``CompressionError`` where a batch cannot be inflated, or
        only into too much; what lies before it is given first.
        """
