"""Hash and partition of a key equal those of Kafka's Java client."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as witness
from hypothesis import given
from hypothesis import strategies as st

from cy.produce.murmur2 import murmur2, partition_for_key

# From Kafka's UtilsTest.
JAVA = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_murmur2_returns_the_values_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@given(st.binary(max_size=100))
def test_murmur2_returns_the_values_of_another_client(key: bytes) -> None:
    assert murmur2(key) & 0xFFFFFFFF == witness(key) & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_goes_to_its_positive_hash_modulo_the_partitions(key: bytes, n: int) -> None:
    assert partition_for_key(key, n) == (murmur2(key) & 0x7FFFFFFF) % n


@pytest.mark.parametrize("n", [0, -1])
def test_partition_for_key_refuses_a_topic_without_partitions(n: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        partition_for_key(b"k", n)
