"""WriteTxnMarkers (27), 1-2: writes the markers that end transactions in partitions. A transaction coordinator sends
it to their leaders (KIP-98), or an administrator to end a hanging transaction (KIP-664); v2 with the transaction
version (KIP-1228)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pybroker.handlers.common.call import Call
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import WriteTxnMarkers, errors
from pyclient.protocol.errors import KafkaError

Response = WriteTxnMarkers.Response


async def handle(request: WriteTxnMarkers.Request, call: Call) -> WriteTxnMarkers.Response:
    """An outcome per partition of each marker, once all of them have the promise of acks=all.

    A marker without a producer id fails the request: UNKNOWN_SERVER_ERROR for all, as in Kafka.
    """
    sane = all(marker.producer_id >= 0 and marker.producer_epoch >= 0 for marker in request.markers)
    write = _write if sane else _refuse
    return Response(markers=await asyncio.gather(*(write(marker, call) for marker in request.markers)))


async def _refuse(
    asked: WriteTxnMarkers.Request.WritableTxnMarker, call: Call
) -> WriteTxnMarkers.Response.WritableTxnMarkerResult:
    error = errors.UnknownServerError("a marker has a producer id and epoch")
    return _result(asked, dict.fromkeys(_partitions(asked), error))


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
    return _result(asked, await call.broker.transactions.markers.write(marker, _partitions(asked)))


def _partitions(asked: WriteTxnMarkers.Request.WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes
    ]


def _result(
    asked: WriteTxnMarkers.Request.WritableTxnMarker,
    outcomes: Mapping[TopicPartition, KafkaError | None],
) -> WriteTxnMarkers.Response.WritableTxnMarkerResult:
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
