"""InitProducerId (22), 0-5: returns a producer id for an idempotent producer, or takes over a transactional id
(KIP-98). Version 3 adds the producer's current id (KIP-360), v4 the error PRODUCER_FENCED."""

from __future__ import annotations

from pybroker.coordinator.shard import Producer
from pybroker.handlers.common import fenced
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    check,
    may,
    may_any,
)
from pyclient.protocol import InitProducerId, errors

Response = InitProducerId.Response

NO_ID = NO_EPOCH = -1
_FIRST_WITH_FENCED = 4


async def handle(request: InitProducerId.Request, call: Call) -> InitProducerId.Response:
    """Answers with a new producer id and epoch 0; for a transactional id, with its producer id and its next epoch."""
    try:
        _check_rights(request, call)
        expected = _expected(request)
        if request.transactional_id is None:
            return Response(producer_id=await call.broker.producer_ids.next(), producer_epoch=0)
        producer = await call.broker.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
    except errors.KafkaError as error:
        code = fenced.code(error, call.version, _FIRST_WITH_FENCED)
        return Response(error_code=code, producer_id=NO_ID, producer_epoch=NO_EPOCH)
    return Response(producer_id=producer.id, producer_epoch=producer.epoch)


def _check_rights(request: InitProducerId.Request, call: Call) -> None:
    """Raises TransactionalIdAuthorizationFailed, or ClusterAuthorizationFailed if the client may write to no topic."""
    if request.transactional_id is not None:
        check(call, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    elif not (may_any(call, WRITE_TOPIC) or may(call, IDEMPOTENT_WRITE)):
        raise errors.ClusterAuthorizationFailed


def _expected(request: InitProducerId.Request) -> Producer | None:
    """Returns the producer's previous identity, or None. Raises InvalidRequest."""
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
        raise errors.InvalidRequest("producer id and producer epoch must be given together")
    if request.producer_id == NO_ID:
        return None
    return Producer(request.producer_id, request.producer_epoch)
