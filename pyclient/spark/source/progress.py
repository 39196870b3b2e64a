"""The lag of a stream, for everyone to see: what a batch has finished is committed to a group of Kafka's.

The group has no members, and nothing is read by it: Only Spark's checkpoint says where a query goes on, because the
group always lacks the last batch. So a commit that fails is logged, and made good by the next.
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
"""How long a batch waits for its group."""
AGAIN_S: Final = 30.0
"""How long a group that was not told is left alone: no batch waits for a coordinator that is not there."""


class Progress:
    """Commits the progress of one query."""

    def __init__(self, group: str | None, offsets: LogOffsets, clock: Callable[[], float]) -> None:
        self._group = group
        self._offsets = offsets
        self._clock = clock
        self._told: Offsets | None = None
        self._not_before = clock()

    def finished(self, end: Offsets) -> None:
        """Everything before these offsets is done."""
        if self._group is None or not end or end == self._told or self._clock() < self._not_before:
            return
        try:
            self._offsets.admin.alter_consumer_group_offsets(self._group, dict(end), timeout=TOLD_S)
        except KafkaError as error:
            self._not_before = self._clock() + AGAIN_S
            log.warning("the offsets of group %s were not committed: %s", self._group, error)
        else:
            self._told = dict(end)
