"""What a consumer shall read although the cluster does not have it: it waits, and the log says for what."""

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
    """Returns those of which a broker has said that they are not there, and warns of each reason once."""
    missing = [tp for tp in partitions if _is_missing(client, tp)]
    for why in dict.fromkeys(str(client.why_unknown(tp)) for tp in missing):
        log.warning("%s: %s", what, why, extra={URGENT: True})
    return missing


def _is_missing(client: Client, tp: TopicPartition) -> bool:
    """A broker has answered, and does not have it."""
    cluster = client.cluster
    if isinstance(cluster.error(tp.topic), UnknownTopicOrPartition):
        return True
    return cluster.partitions(tp.topic) is not None and cluster.partition(tp) is None
