from collections.abc import Iterator

from typing_extensions import Buffer

from cy.batch import Record

def iterate(buffer: Buffer, max_output: int | None = None) -> Iterator[Record]:
    """Yields the records of messages of formats v0 and v1, unwrapped; v0 records have the timestamp -1.

    Leaves out an incomplete message at the buffer's end. ``max_output`` limits each wrapper's decompressed size. Raises
    ``batch.CorruptBatch``, ``batch.InvalidBatch``, ``compression.UnknownCodec``.
    """

def up_convert(buffer: Buffer, *, max_output: int | None = None) -> bytes:
    """Converts messages of formats v0 and v1 to v2 batches; keeps offsets, timestamps, keys, values and codecs.

    A wrapper becomes one batch; single messages in a row are gathered into batches of about 1 MiB. Limits and errors
    are those of ``iterate``.
    """
