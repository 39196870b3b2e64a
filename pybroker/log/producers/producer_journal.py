"""Keeps the producers' states before the newest batches, so that a truncation can undo changes without reading the log.

Except after an unclean election, a truncation removes no records below the high watermark. So before each batch the
journal notes the state of the batch's producer. It drops this note when the high watermark has passed the batch. The
journal is bounded: if the high watermark is far behind, it has only the newest batches, and a deeper truncation has to
read the log.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from pybroker.log.producers.producer_entry import BatchMetadata, ProducerState

MAX_BATCHES: Final = 1024


Change = tuple[int, int, BatchMetadata | ProducerState | None]
"""The offset of a batch, its producer, and the producer's state before it.

The state is None if the producer was unknown. If only the last batch has changed, it is just the previous last batch.
"""


class ProducerJournal:
    """Remembers the newest changes of producers' states, oldest first, so that they can be undone."""

    __slots__ = ("_changes", "start")

    def __init__(self) -> None:
        self._changes: deque[Change] | None = None
        self.start = 0
        """The journal has all changes by batches at or beyond this offset."""

    def __len__(self) -> int:
        return 0 if self._changes is None else len(self._changes)

    def begin_at(self, offset: int) -> None:
        """Starts an empty journal, which knows nothing of batches below ``offset``."""
        self._changes = None
        self.start = offset

    def note(self, offset: int, producer_id: int, before: BatchMetadata | ProducerState | None) -> None:
        """Notes the producer's state before the batch at ``offset`` changes it."""
        changes = self._changes
        if changes is None:
            changes = self._changes = deque()
        changes.append((offset, producer_id, before))
        if len(changes) > MAX_BATCHES:
            self.start = changes.popleft()[0] + 1

    def forget_below(self, offset: int) -> None:
        """Drops the changes below ``offset``: the log will not be truncated to there any longer."""
        changes = self._changes
        while changes and changes[0][0] < offset:
            self.start = changes.popleft()[0] + 1

    def take_back(self, offset: int) -> Iterator[Change]:
        """Removes and yields the changes by batches at or beyond ``offset``, newest first."""
        changes = self._changes
        while changes and changes[-1][0] >= offset:
            yield changes.pop()
