"""WriteTxnMarkers (27), 1-2: from a transaction coordinator to the leaders of a transaction's
partitions (KIP-98), or from an administrator who ends a hanging transaction (KIP-664); v2 with the
transaction version (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.handlers.call import Call
from pybroker.log.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import WriteTxnMarkers, errors
from pyclient.protocol.errors import KafkaError

Response = WriteTxnMarkers.Response


async def handle(request: WriteTxnMarkers.Request, call: Call) -> WriteTxnMarkers.Response:
    """An outcome per partition of each marker, once all of them have the promise of acks=all."""
    return Response(markers=[await _write(marker, call) for marker in request.markers])


async def _write(
    asked: WriteTxnMarkers.Request.WritableTxnMarker, call: Call
) -> WriteTxnMarkers.Response.WritableTxnMarkerResult:
    marker = EndTxnMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    partitions = [
        TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes
    ]
    outcomes = await call.broker.transactions.markers.write(marker, partitions)
    return Response.WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[_told(topic.name, topic.partition_indexes, outcomes) for topic in asked.topics],
    )


def _told(
    name: str, indexes: list[int], outcomes: Mapping[TopicPartition, KafkaError | None]
) -> WriteTxnMarkers.Response.WritableTxnMarkerTopicResult:
    partitions = []
    for index in indexes:
        error = outcomes[TopicPartition(name, index)]
        code = errors.NONE if error is None else error.code
        partitions.append(
            Response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
    return Response.WritableTxnMarkerTopicResult(name=name, partitions=partitions)
