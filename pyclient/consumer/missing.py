"""Topics and partitions that a consumer should read and that do not exist: it waits, and a warning names them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from pyclient.core.client import Client
from pyclient.core.reports.last_resort import URGENT
from pyclient.protocol.errors import UnknownTopicOrPartition
from pyclient.topic_partition import TopicPartition

log: Final = logging.getLogger(__name__)


def tell_missing(client: Client, what: str, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Returns the partitions of which a broker has said that they do not exist. Logs a warning for each reason."""
    missing = [tp for tp in partitions if _is_missing(client, tp)]
    for why in dict.fromkeys(str(client.why_unknown(tp)) for tp in missing):
        log.warning("%s: %s", what, why, extra={URGENT: True})
    return missing


def _is_missing(client: Client, tp: TopicPartition) -> bool:
    """Returns whether a broker has answered that the partition does not exist."""
    cluster = client.cluster
    if isinstance(cluster.error(tp.topic), UnknownTopicOrPartition):
        return True
    return cluster.partitions(tp.topic) is not None and cluster.partition(tp) is None
