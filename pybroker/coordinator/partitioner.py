"""Maps a group or transactional id to a partition of the internal topic, and so to a broker."""

from __future__ import annotations

from pybroker.short_cache import cached_if_short

_LEAST = 1 << 31


def java_hash(text: str) -> int:
    """Returns Java's ``String.hashCode``, over UTF-16 code units, as an unsigned 32-bit number."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] | units[at + 1] << 8)) & 0xFFFFFFFF
    return value


@cached_if_short(16_384)
def partition_for(id: str, partitions: int) -> int:
    """Returns ``abs(hash(id)) % partitions``, with Java's signed hash and Kafka's ``abs``.

    For the smallest int32, which has no positive counterpart, that is 0.
    """
    value = java_hash(id)
    if value == _LEAST:
        return 0
    return (value if value < _LEAST else 2 * _LEAST - value) % partitions
