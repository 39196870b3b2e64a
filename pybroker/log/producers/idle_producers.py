"""Chooses the producers that a log forgets if there are too many.

A client may invent ids of idempotent producers, one per batch of 70 bytes, and the log keeps each for a day
(``producer.id.expiration.ms``). So the number is limited. Beyond the limit, the log forgets the producers that have
been idle for longest: an eighth of the limit at once, because each search reads all producers. It never forgets a
producer with an open transaction, since the transaction's records must stay hidden until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pybroker.log.producers.producer_entry import NO_OFFSET, ProducerEntry

MAX_PRODUCERS: Final = 20_000
"""How many producers a log keeps. So many take about 9 MB, and their snapshot at a roll takes 10 to 20 ms."""
SHARE: Final = 8


def longest_idle(producers: Iterable[ProducerEntry], count: int) -> list[int]:
    """Returns the ids of the producers to forget, longest idle first; ``count`` is how many there are."""
    idle = [entry for entry in producers if entry.transaction_first_offset == NO_OFFSET]
    idle.sort(key=lambda entry: entry.seen_ms)  # stable: among equally idle ones, the first is forgotten first
    return [entry.producer_id for entry in idle[: count - MAX_PRODUCERS + _room()]]


def limit_after(left: int) -> int:
    """Returns at how many producers to search again, if ``left`` are left.

    This is later than the limit if nearly all have open transactions.
    """
    return max(MAX_PRODUCERS, left + _room())


def _room() -> int:
    return MAX_PRODUCERS // SHARE
