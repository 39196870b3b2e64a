"""EndTxn (26), 0-5: commits or aborts a transaction (KIP-98). Version 2 adds the error PRODUCER_FENCED. Version 5
answers with the producer id and epoch of the next transaction (KIP-890)."""

from __future__ import annotations

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.transaction import V2
from pybroker.handlers.common import fenced
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import WRITE_TRANSACTIONAL_ID, check
from pyclient.protocol import EndTxn
from pyclient.protocol.errors import KafkaError

Response = EndTxn.Response

_FIRST_WITH_FENCED = 2
_FIRST_WITH_NEXT_EPOCH = 5


async def handle(request: EndTxn.Request, call: Call) -> EndTxn.Response:
    """Answers when the outcome is durable. The coordinator writes the markers afterwards."""
    producer = Producer(request.producer_id, request.producer_epoch)
    version = V2 if call.version >= _FIRST_WITH_NEXT_EPOCH else 0
    try:
        check(call, WRITE_TRANSACTIONAL_ID, request.transactional_id)
        following = await call.broker.transactions.end(
            request.transactional_id, producer, request.committed, version
        )
    except KafkaError as error:
        return Response(error_code=fenced.code(error, call.version, _FIRST_WITH_FENCED))
    return Response(producer_id=following.id, producer_epoch=following.epoch)
