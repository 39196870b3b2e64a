from typing import Final

from typing_extensions import Buffer

from cy.batch.header import Batch

MAX_RECORD_ERRORS: Final = 1000
"""The most errors of single records that are reported for a batch."""

def validate(
    buffer: Buffer,
    *,
    require_key: bool = False,
    min_timestamp: int = ...,
    max_timestamp: int = ...,
    allow_control: bool = False,
    max_output: int | None = None,
    max_record: int = ...,
) -> Batch:
    """Checks that ``buffer`` is exactly one v2 batch that a broker may append, and returns its header.

    Pass ``require_key`` for a compacted topic. The records' timestamps (ms) must lie between the two bounds; -1 is
    always valid. Pass ``allow_control`` if the broker itself made the batch, not a client. ``max_output`` limits the
    decompressed size; by default ``compression.output_limit``. ``max_record`` limits the size of a record in a
    compressed batch. Raises ``CorruptBatch``, ``InvalidBatch``, ``compression.UnknownCodec``. Releases the GIL for 64
    KiB and more.
    """
