"""Logs the controller's elections."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cy.counted import counted, shortened
from pybroker.cluster.decisions.elections import Elections
from pybroker.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


def tell(elections: Elections, *, is_start: bool = False) -> None:
    """Logs the changes by elections. ``is_start`` is True if the whole cluster may be starting."""
    if elections.moved:
        logger.info("%s a new leader", counted(elections.moved, "partition has", "partitions have"))
    if elections.offline and is_start:
        logger.info("%s have no leader until a broker with all their records joins", _named(elections.offline))
    elif elections.offline:
        logger.warning("%s have no leader, because no live replica has all their records", _named(elections.offline))
    if elections.doubtful:
        logger.warning(
            "acknowledged records may be lost: no remaining replica is known to have all records"
            " (a machine went down, a disk was replaced, or the election is unclean): %s",
            _named(elections.doubtful),
        )


def _named(partitions: Sequence[TopicPartition]) -> str:
    return shortened(list(map(str, partitions)))
