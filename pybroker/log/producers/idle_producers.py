"""Which producers a log forgets first where there are too many of them.

Anybody may invent ids of idempotent producers, one a batch of 70 bytes, and each is remembered for a day
(``producer.id.expiration.ms``). So a log has a limit. Beyond it those go of which nothing was appended for longest, an
eighth of the limit at once, as looking for them reads all. A producer with an open transaction never goes: what it has
written must stay hidden until its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pybroker.log.producers.producer_entry import NO_OFFSET, ProducerEntry

MAX_PRODUCERS: Final = 20_000
"""Some 9 MB; a snapshot of them is written in 10 to 20 ms, at a roll."""
SHARE: Final = 8


def longest_idle(producers: Iterable[ProducerEntry], count: int) -> list[int]:
    """Ids of those of ``count`` producers, too many, that are to be forgotten, the oldest first."""
    idle = [entry for entry in producers if entry.transaction_first_offset == NO_OFFSET]
    idle.sort(key=lambda entry: entry.seen_ms)  # stable: of the same moment the first to come is the first to go
    return [entry.producer_id for entry in idle[: count - MAX_PRODUCERS + _room()]]


def limit_after(left: int) -> int:
    """With how many producers one looks again, where ``left`` are left: not at once where nearly all have open
    transactions.
    """
    return max(MAX_PRODUCERS, left + _room())


def _room() -> int:
    return MAX_PRODUCERS // SHARE
