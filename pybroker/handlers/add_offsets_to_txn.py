"""AddOffsetsToTxn (25), 0-4: adds a group to a transaction, which then commits its offsets (KIP-98). The coordinator
adds the group's partition of ``__consumer_offsets``. Version 2 adds the error PRODUCER_FENCED."""

from __future__ import annotations

from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.coordinator.partitioner import partition_for
from pybroker.coordinator.shard import Producer
from pybroker.handlers import find_coordinator
from pybroker.handlers.common import fenced
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import READ_GROUP, WRITE_TRANSACTIONAL_ID, check
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import AddOffsetsToTxn
from pyclient.protocol.errors import KafkaError

Response = AddOffsetsToTxn.Response

_FIRST_WITH_FENCED = 2


async def handle(request: AddOffsetsToTxn.Request, call: Call) -> AddOffsetsToTxn.Response:
    """Adds the group's partition to the transaction; first creates the topic if it does not exist."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        check(call, WRITE_TRANSACTIONAL_ID, request.transactional_id)
        check(call, READ_GROUP, request.group_id)
        topic = await find_coordinator.internal_topic(OFFSETS_TOPIC, call)
        index = partition_for(request.group_id, len(topic.partitions))
        await call.broker.transactions.add(
            request.transactional_id, producer, [TopicPartition(OFFSETS_TOPIC, index)], 0
        )
    except KafkaError as error:
        return Response(error_code=fenced.code(error, call.version, _FIRST_WITH_FENCED))
    return Response()
