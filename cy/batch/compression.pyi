from enum import IntEnum
from typing import Final

from typing_extensions import Buffer

class Codec(IntEnum):
    """The compression of a record batch, by its number in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

class CompressionError(ValueError): ...

class UnknownCodec(CompressionError):
    """There is no such codec (UNSUPPORTED_COMPRESSION_TYPE)."""

class OutputTooLarge(CompressionError):
    """The data would decompress to more than was allowed."""

class CorruptData(CompressionError):
    """The data is not of that codec, or is damaged or incomplete."""

OUTPUT_FLOOR: Final = 33554432
OUTPUT_RATIO: Final = 64

def output_limit(size: int) -> int:
    """Returns how many bytes ``size`` compressed bytes of a batch may become: 64 times as many, at least 32 MiB."""

def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Returns ``data``, compressed as Kafka's Java client does it (snappy in xerial's framing). ``level`` is on the
    codec's own scale.

    Raises ``UnknownCodec``, and ``ValueError`` for a level that the codec does not have.
    """

def decompress(codec: int, data: Buffer, max_output: int) -> Buffer:
    """Decompresses ``data`` to at most ``max_output`` bytes.

    Allocates at most 8 MiB before it is certain that the output stays within the limit, whatever the data claims.
    Accepts everything that clients write: several gzip members or zstd frames in a row; snappy, raw or in xerial's
    framing. Raises ``UnknownCodec``, ``OutputTooLarge``, ``CorruptData``. Thread-safe.
    """
