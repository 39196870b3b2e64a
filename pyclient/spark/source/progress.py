"""Shows the lag of a stream: commits the offsets of finished batches to a consumer group.

The group has no members, and no query starts from its offsets. Only Spark's checkpoint defines where a query continues,
because the group always lacks the last batch. So a failed commit is logged, and the next commit corrects it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyclient.errors import KafkaError
from pyclient.spark.source.log_offsets import LogOffsets
from pyclient.spark.source.offsets import Offsets

log = logging.getLogger(__name__)

TOLD_S: Final = 5.0
"""How long a batch waits until its progress is committed."""
AGAIN_S: Final = 30.0
"""The pause after a failed commit, so that not every batch waits for an unreachable coordinator."""


class Progress:
    """Commits the progress of one query."""

    def __init__(self, group: str | None, offsets: LogOffsets, clock: Callable[[], float]) -> None:
        self._group = group
        self._offsets = offsets
        self._clock = clock
        self._told: Offsets | None = None
        self._not_before = clock()

    def finished(self, end: Offsets) -> None:
        """Commits these offsets: all records before them are processed."""
        if self._group is None or not end or end == self._told or self._clock() < self._not_before:
            return
        try:
            self._offsets.admin.alter_consumer_group_offsets(self._group, dict(end), timeout=TOLD_S)
        except KafkaError as error:
            self._not_before = self._clock() + AGAIN_S
            log.warning("the offsets of group %s were not committed: %s", self._group, error)
        else:
            self._told = dict(end)
