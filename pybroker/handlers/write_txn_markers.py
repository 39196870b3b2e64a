"""WriteTxnMarkers (27), 1-2: writes the markers that end transactions in partitions. A transaction coordinator sends
it to their leaders (KIP-98), or an administrator to end a hanging transaction (KIP-664). Version 2 adds the transaction
version (KIP-1228)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import WAITING_AT_ONCE, Paced, Part, in_turns, one_by_one, parts
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import WriteTxnMarkers, errors

Asked = WriteTxnMarkers.Request.WritableTxnMarker
Response = WriteTxnMarkers.Response
Result = Response.WritableTxnMarkerResult


async def handle(request: WriteTxnMarkers.Request, call: Call) -> WriteTxnMarkers.Response:
    """Answers with one result per partition of each marker, once acks=all is fulfilled for all of them.

    A marker without a producer id fails the whole request with UNKNOWN_SERVER_ERROR, as in Kafka.
    """
    sane = all(marker.producer_id >= 0 and marker.producer_epoch >= 0 for marker in request.markers)
    response = Response()

    def work() -> Iterator[tuple[Asked, Result, list[Part]]]:
        for asked in request.markers:
            result = Result(producer_id=asked.producer_id)
            response.markers.append(result)
            for part in parts(asked.topics, "partition_indexes", WAITING_AT_ONCE):
                yield asked, result, part

    await one_by_one(work(), lambda row: _write(*row, call, sane=sane), call)
    return response


@in_turns
def refused(request: WriteTxnMarkers.Request, call: Call, error: errors.KafkaError) -> Paced[WriteTxnMarkers.Response]:
    """Returns the response to a client that may not write markers."""
    response = Response()
    for asked in request.markers:
        result = Result(producer_id=asked.producer_id)
        response.markers.append(result)
        for topic in asked.topics:
            told = Response.WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(told)
            for index in topic.partition_indexes:
                yield
                told.partitions.append(
                    Response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
                )
    return response


async def _write(asked: Asked, result: Result, part: list[Part], call: Call, *, sane: bool) -> None:
    named = [TopicPartition(topic.name, index) for topic, indexes, _ in part for index in indexes]
    outcomes: Mapping[TopicPartition, errors.KafkaError | None]
    if sane:
        outcomes = await call.broker.transactions.markers.write(_marker(asked), named)
    else:
        outcomes = dict.fromkeys(named, errors.UnknownServerError("a marker lacks its producer id or epoch"))
    for topic, indexes, begin in part:
        if not begin:
            result.topics.append(Response.WritableTxnMarkerTopicResult(name=topic.name))
        for index in indexes:
            error = outcomes[TopicPartition(topic.name, index)]
            code = errors.NONE if error is None else error.code
            result.topics[-1].partitions.append(
                Response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
            )


def _marker(asked: Asked) -> EndTxnMarker:
    return EndTxnMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
