"""Compressed data of every client is decompressed; damaged data is refused."""

from __future__ import annotations

import contextlib
import gzip
import threading
import zlib

import kafka.codec
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cy.batch.compression import (
    Codec,
    CompressionError,
    CorruptData,
    OutputTooLarge,
    UnknownCodec,
    compress,
    decompress,
)

LIMIT = 1 << 26
TEXT = b"".join(b'{"flight":%d,"carrier":"UA","delay":%d}\n' % (i, i * i % 97) for i in range(3000))
SAMPLES = [b"", b"a", TEXT, bytes(200_000), bytes(range(256)) * 300]
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]

PACKED = {codec: compress(codec, TEXT) for codec in CODECS}

every_codec = pytest.mark.parametrize("codec", CODECS)


@every_codec
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_decompressed_data_equals_the_original(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, LIMIT) == data
    assert decompress(codec, memoryview(bytearray(packed)), LIMIT) == data
    assert compress(codec, memoryview(bytearray(data))) == packed


@every_codec
@given(data=st.binary(max_size=500), repeat=st.integers(1, 2000))
def test_any_random_data_is_decompressed_to_the_original(codec: Codec, data: bytes, repeat: int) -> None:
    whole = data * repeat
    assert decompress(codec, compress(codec, whole), len(whole)) == whole


def test_without_a_codec_data_within_the_limit_is_returned_unchanged() -> None:
    assert compress(0, b"abc") == b"abc"
    assert bytes(decompress(0, memoryview(b"abc"), 3)) == b"abc"
    with pytest.raises(OutputTooLarge):
        decompress(0, b"abcd", 3)


@pytest.mark.parametrize("codec", [-1, 5, 7, 100])
def test_case_57_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(UnknownCodec):
        compress(codec, b"")
    with pytest.raises(UnknownCodec):
        decompress(codec, b"", 10)
    assert issubclass(UnknownCodec, CompressionError)
    assert issubclass(CompressionError, ValueError)


def test_other_clients_read_what_we_write() -> None:
    assert kafka.codec.gzip_decode(compress(Codec.GZIP, TEXT)) == TEXT
    assert kafka.codec.snappy_decode(compress(Codec.SNAPPY, TEXT)) == TEXT
    assert kafka.codec.lz4_decode(compress(Codec.LZ4, TEXT)) == TEXT
    assert kafka.codec.zstd_decode(compress(Codec.ZSTD, TEXT)) == TEXT


def test_we_read_what_other_clients_write() -> None:
    assert decompress(Codec.GZIP, kafka.codec.gzip_encode(TEXT), LIMIT) == TEXT
    assert decompress(Codec.SNAPPY, kafka.codec.snappy_encode(TEXT), LIMIT) == TEXT
    assert decompress(Codec.LZ4, kafka.codec.lz4_encode(TEXT), LIMIT) == TEXT
    assert decompress(Codec.ZSTD, kafka.codec.zstd_encode(TEXT), LIMIT) == TEXT


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)]
)
def test_a_higher_level_yields_a_smaller_result(codec: Codec, low: int, high: int) -> None:
    small = compress(codec, TEXT, high)
    assert len(small) < len(compress(codec, TEXT, low))
    assert decompress(codec, small, LIMIT) == TEXT


# ---- framings


def test_snappy_is_read_raw_as_librdkafka_writes_it() -> None:
    assert decompress(Codec.SNAPPY, snappy.compress(TEXT), LIMIT) == TEXT


def test_snappy_is_written_in_blocks_of_32_kib_as_java_does() -> None:
    packed = compress(Codec.SNAPPY, bytes(100_000))
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    sizes, position = [], 16
    while position < len(packed):
        length = int.from_bytes(packed[position : position + 4], "big")
        sizes.append(len(snappy.uncompress(packed[position + 4 : position + 4 + length])))
        position += 4 + length
    assert sizes == [32768, 32768, 32768, 1696]


def test_concatenated_snappy_streams_are_read_as_one() -> None:
    packed = compress(Codec.SNAPPY, b"one") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, packed, 6) == b"onetwo"


def test_concatenated_gzip_members_are_read_as_one() -> None:
    large = bytes(1 << 20)  # its output is read in several pieces
    parts = (TEXT, b"", large, large, b"end")
    packed = b"".join(gzip.compress(part) for part in parts)
    assert decompress(Codec.GZIP, packed, LIMIT) == b"".join(parts)


def test_concatenated_zstd_frames_are_read_as_one() -> None:
    packed = compress(Codec.ZSTD, TEXT) + compress(Codec.ZSTD, b"") + compress(Codec.ZSTD, b"end")
    assert decompress(Codec.ZSTD, packed, LIMIT) == TEXT + b"end"


@pytest.mark.parametrize("data", [b"", TEXT, bytes(3_000_000)], ids=len)
@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_streams_do_not_declare_their_size(data: bytes, checksum: bool) -> None:
    stream = zstandard.ZstdCompressor(write_checksum=checksum).compressobj()
    packed = stream.compress(data[:1000]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    packed += stream.compress(data[1000:]) + stream.flush()
    assert zstandard.get_frame_parameters(packed).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(Codec.ZSTD, packed, LIMIT) == data


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_791, 65_792, 65_793, 300_000])
def test_zstd_sizes_of_every_width_are_understood(size: int) -> None:
    for level in (1, 22):
        packed = zstandard.ZstdCompressor(level=level, write_checksum=True).compress(bytes(size))
        assert decompress(Codec.ZSTD, packed, size) == bytes(size)


def test_zstd_of_the_largest_window_is_read() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 128 << 20
    assert decompress(Codec.ZSTD, packed, LIMIT) == TEXT


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("options", [{}, {"content_checksum": True, "block_checksum": True}])
@pytest.mark.parametrize("store_size", [False, True])
def test_lz4_frames_of_every_kind_are_read(
    block_size: int, options: dict[str, bool], store_size: bool
) -> None:
    for data in SAMPLES:
        packed = lz4.frame.compress(
            data, block_size=block_size, block_linked=False, store_size=store_size, **options
        )
        assert decompress(Codec.LZ4, packed, LIMIT) == data
        assert decompress(Codec.LZ4, packed, len(data)) == data


def test_lz4_blocks_that_depend_on_each_other_are_refused_as_java_cannot_read_them() -> None:
    with pytest.raises(CorruptData, match="independent"):
        decompress(Codec.LZ4, lz4.frame.compress(TEXT * 10, block_linked=True), LIMIT)


# ---- damage


@every_codec
def test_data_that_ends_early_is_refused_wherever_it_ends(codec: Codec) -> None:
    packed = compress(codec, TEXT[:30_000])
    ends = {*range(60), *range(60, len(packed), 97), *range(len(packed) - 20, len(packed))}
    if codec is Codec.SNAPPY:  # a header without a block is a stream of nothing
        assert decompress(codec, packed[:16], LIMIT) == b""
        ends.remove(16)
    for end in sorted(ends):
        with pytest.raises(CorruptData):
            decompress(codec, packed[:end], LIMIT)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_after_the_compressed_data_are_refused(codec: Codec) -> None:
    with pytest.raises(CorruptData):
        decompress(codec, compress(codec, TEXT) + b"\0\0\0\0", LIMIT)


@every_codec
@given(junk=st.binary(max_size=200))
def test_random_bytes_are_refused_or_decompressed_within_the_limit(codec: Codec, junk: bytes) -> None:
    with contextlib.suppress(CorruptData, OutputTooLarge):
        assert len(decompress(codec, junk, 1000)) <= 1000


@every_codec
@given(data=st.data())
def test_damaged_data_is_refused_or_decompressed_within_the_limit(
    codec: Codec, data: st.DataObject
) -> None:
    packed = bytearray(PACKED[codec])
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptData, OutputTooLarge):
        assert len(decompress(codec, bytes(packed), len(TEXT))) <= len(TEXT)


def test_zlib_data_is_refused_as_gzip() -> None:
    with pytest.raises(CorruptData):
        decompress(Codec.GZIP, zlib.compress(TEXT), LIMIT)


# ---- threads


@every_codec
def test_threads_can_compress_at_the_same_time(codec: Codec) -> None:
    samples = [bytes([n]) * 50_000 + TEXT[n * 100 :] for n in range(8)]
    wrong: list[int] = []

    def work(n: int) -> None:
        results = [decompress(codec, compress(codec, samples[n]), LIMIT) for _ in range(20)]
        if any(result != samples[n] for result in results):
            wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_gzip_data_is_limited_by_the_size_in_its_trailer() -> None:
    honest = gzip.compress(bytes(20 << 20))
    assert decompress(Codec.GZIP, honest, LIMIT) == bytes(20 << 20)
    with pytest.raises(OutputTooLarge):
        decompress(Codec.GZIP, honest, (20 << 20) - 1)
    for said in (0, 1, 1000, (20 << 20) - 1):
        liar = honest[:-4] + said.to_bytes(4, "little")
        with pytest.raises((OutputTooLarge, CorruptData)):
            decompress(Codec.GZIP, liar, LIMIT)


def test_gzip_of_several_members_is_read_to_its_end() -> None:
    members = [b"a" * 1000, b"", b"b" * 100_000, b"c"]
    for order in (members, members[::-1]):
        assert decompress(Codec.GZIP, b"".join(map(gzip.compress, order)), LIMIT) == b"".join(order)
