"""AlterPartition (56), 2-3: the leader of partitions proposes their in-sync replicas, and the controller decides
(KIP-497, KIP-841, KIP-903). Only brokers of this cluster may send it."""

from __future__ import annotations

from pybroker.cluster.isr_messages import changes_of, response_of
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.between_brokers import asking_broker
from pyclient.protocol import AlterPartition, errors


async def handle(request: AlterPartition.Request, call: Call) -> AlterPartition.Response:
    """Answers with the state of each partition after the controller's decision, or with its error."""
    changes = changes_of(request)
    try:
        if asking_broker(call) != request.broker_id:
            raise errors.ClusterAuthorizationFailed("a broker may only propose changes in its own name")
        outcomes = await call.broker.controller.alter_partition(request.broker_id, request.broker_epoch, changes)
    except errors.KafkaError as error:
        return AlterPartition.Response(error_code=error.code)
    return response_of(changes, outcomes)
