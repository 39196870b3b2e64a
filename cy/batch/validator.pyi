from typing import Final

from typing_extensions import Buffer

from cy.batch.header import Batch

MAX_RECORD_ERRORS: Final = 1000
"""No more errors of single records than this are reported for a batch."""

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
