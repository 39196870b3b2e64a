from typing_extensions import Buffer

def murmur2(key: Buffer) -> int:
    """Returns MurmurHash2 of ``key`` with Kafka's seed, as a signed 32-bit number (``Utils.murmur2``)."""

def partition_for_key(key: Buffer, n: int) -> int:
    """Returns the partition, 0 to n-1, that Java's producer and librdkafka's ``murmur2`` partitioners choose for
    ``key``. Raises ``ValueError`` for n < 1.
    """
