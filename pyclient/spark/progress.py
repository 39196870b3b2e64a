"""The lag of a stream, for everyone to see: what a batch has finished is committed to a group of Kafka's.

The group has no members, and nothing is read by it: Spark's checkpoint alone says where a query goes on, for the
group always lacks the last batch. So a commit that fails is logged, and made good by the next.
"""

from __future__ import annotations

import logging

from pyclient.errors import KafkaError
from pyclient.spark.log_offsets import LogOffsets
from pyclient.spark.offsets import Offsets

log = logging.getLogger(__name__)


class Progress:
    """Of one query."""

    def __init__(self, group: str | None, offsets: LogOffsets) -> None:
        self._group = group
        self._offsets = offsets
        self._told: Offsets | None = None

    def finished(self, end: Offsets) -> None:
        """Everything before these offsets is done."""
        if self._group is None or not end or end == self._told:
            return
        try:
            self._offsets.admin.alter_consumer_group_offsets(self._group, dict(end))
        except KafkaError as error:
            log.warning("the offsets of group %s were not committed: %s", self._group, error)
        else:
            self._told = dict(end)
