from enum import IntEnum
from typing import Final

from typing_extensions import Buffer

class Codec(IntEnum):
    """Compression of a record batch, by the number in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

class CompressionError(ValueError): ...

class UnknownCodec(CompressionError):
    """No such codec (UNSUPPORTED_COMPRESSION_TYPE)."""

class OutputTooLarge(CompressionError):
    """The data would decompress to more than was allowed."""

class CorruptData(CompressionError):
    """The data was not made by that codec, or is damaged or incomplete."""

OUTPUT_FLOOR: Final = 33554432
OUTPUT_RATIO: Final = 64

def output_limit(size: int) -> int:
    """The most that ``size`` compressed bytes of a record batch may become: 64 times as many, at least 32 MiB."""

def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed as Kafka's Java client does it (snappy in xerial's framing). ``level`` is the codec's own scale.

    Raises ``UnknownCodec``; ``ValueError`` for a level that the codec does not have.
    """

def decompress(codec: int, data: Buffer, max_output: int) -> Buffer:
    """``data`` decompressed, of at most ``max_output`` bytes.

    No more than 8 MiB are allocated before it is known that the output is within the bound, whatever the data claims.
    Accepts what clients write: several gzip members or zstd frames in a row; snappy raw and in xerial's framing.
    Raises ``UnknownCodec``, ``OutputTooLarge``, ``CorruptData``. Thread-safe.
    """
