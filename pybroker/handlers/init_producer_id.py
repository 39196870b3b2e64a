"""InitProducerId (22), 0-5: a producer id for an idempotent producer (KIP-98, KIP-360).

There is no transaction coordinator yet: a transactional id gets
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as from FindCoordinator.
"""

from __future__ import annotations

from pybroker.handlers.call import Call
from pyclient.protocol import InitProducerId, errors

Response = InitProducerId.Response

NO_ID = NO_EPOCH = -1


async def handle(request: InitProducerId.Request, call: Call) -> InitProducerId.Response:
    """A new id, in epoch 0, whatever id the producer had."""
    try:
        check(request)
        producer_id = await call.broker.producer_ids.next()
    except errors.KafkaError as error:
        return Response(error_code=error.code, producer_id=NO_ID, producer_epoch=NO_EPOCH)
    return Response(producer_id=producer_id, producer_epoch=0)


def check(request: InitProducerId.Request) -> None:
    """Raises InvalidRequest, TransactionalIdAuthorizationFailed."""
    if request.transactional_id == "":
        raise errors.InvalidRequest("an empty transactional id")
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
        raise errors.InvalidRequest("of producer id and epoch only one is given")
    if request.transactional_id is not None:
        raise errors.TransactionalIdAuthorizationFailed("this broker does not serve transactions yet")
