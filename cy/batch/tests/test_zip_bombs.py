"""A batch that would become 10 GiB is refused quickly, in little memory, whatever it claims."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cy.batch import Builder, iterate, recompress, validate
from cy.batch.compression import Codec, OutputTooLarge, compress, decompress, output_limit
from cy.batch.tests import bombs

MIB = 1 << 20


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, float, int]]:
    run = subprocess.run(
        [sys.executable, "-m", "cy.batch.tests.bombs"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=True,
        timeout=120,
    )
    return dict(json.loads(run.stdout))


@pytest.mark.nightly
@pytest.mark.parametrize("name", bombs.bombs())
def test_case_57_zip_bomb_is_refused_in_100_ms_and_16_mib(
    name: str, outcomes: dict[str, tuple[str, float, int]]
) -> None:
    error, milliseconds, additional_bytes = outcomes[name]
    assert error in ("OutputTooLarge", "CorruptData")
    assert milliseconds < 100
    assert additional_bytes < 16 * MIB


def test_each_zip_bomb_decompresses_to_its_declared_size() -> None:
    everything = bombs.bombs()
    for name in ("gzip", "lz4", "zstd", "zstd, frames", "gzip, members"):
        codec, data = everything[name]
        with pytest.raises(OutputTooLarge):
            decompress(codec, data, 40 * MIB)
    lz4_frame = bombs.lz4_frame(None, 8)
    assert len(decompress(Codec.LZ4, lz4_frame, 64 * MIB)) == 32 * MIB
    assert decompress(Codec.ZSTD, bombs.zstd_frame(8), MIB) == bytes(MIB)
    assert decompress(Codec.SNAPPY, bombs.snappy_raw(1 + 64 * 1000, 3004), MIB) == b"A" * 64_001


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_an_honest_batch_that_compresses_a_thousandfold_is_accepted(codec: Codec) -> None:
    builder = Builder(codec=codec)
    for _ in range(20):
        builder.append(0, b"k", bytes(MIB))
    batch = builder.build()
    assert validate(batch).count == 20
    assert len(batch) < 2 * MIB


def test_the_limit_grows_with_the_batch() -> None:
    assert output_limit(100) == 32 * MIB
    assert output_limit(10 * MIB) == 640 * MIB


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_output_of_exactly_the_limit_is_returned_and_one_byte_more_is_refused(codec: Codec) -> None:
    for size in (1000, 5 * MIB, 9 * MIB + 1):
        data = compress(codec, bytes(size))
        assert decompress(codec, data, size) == bytes(size)
        with pytest.raises(OutputTooLarge):
            decompress(codec, data, size - 1)


def test_a_batch_is_never_recompressed_into_one_that_would_be_refused_as_a_bomb() -> None:
    builder = Builder(codec=Codec.SNAPPY)
    builder.append(1, b"key", bytes(40 * MIB))
    sent = builder.build()
    kept = recompress(sent, Codec.ZSTD)
    assert [len(record.value) for record in iterate(kept)] == [40 * MIB]
