"""TxnOffsetCommit (28): commits offsets within a transaction. Version 2 adds leader epochs (KIP-320), v3 group metadata
(KIP-447), v4 the error TRANSACTION_ABORTABLE, v6 topic ids (KIP-1319). Version 5 also adds the group to the transaction
(KIP-890).

The handler refuses partitions that do not exist; the coordinator decides on all others.
"""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.offset_writes import by_id, by_name, of_existing
from pybroker.handlers.common.security.rights import READ_GROUP, WRITE_TRANSACTIONAL_ID, may
from pyclient.protocol import TxnOffsetCommit, errors

Request = TxnOffsetCommit.Request
Response = TxnOffsetCommit.Response

_FIRST_WITH_IDS = 6


async def handle(request: TxnOffsetCommit.Request, call: Call) -> TxnOffsetCommit.Response:
    """Answers with one result per partition, in the order of the request's topics."""
    response = Response()
    with_ids = call.version >= _FIRST_WITH_IDS
    await of_existing(
        request,
        call,
        response.topics,
        (_topic, Response.TxnOffsetCommitResponsePartition),
        lambda part: call.broker.groups.txn_offset_commit(part, call.version),
        find=by_id if with_ids else by_name,
        unknown=errors.UnknownTopicId if with_ids else errors.UnknownTopicOrPartition,
        denied=_denied(request, call),
    )
    return response


def _denied(request: Request, call: Call) -> type[errors.KafkaError] | None:
    if not may(call, WRITE_TRANSACTIONAL_ID, request.transactional_id):
        return errors.TransactionalIdAuthorizationFailed
    return None if may(call, READ_GROUP, request.group_id) else errors.GroupAuthorizationFailed


def _topic(asked: Request.TxnOffsetCommitRequestTopic) -> Response.TxnOffsetCommitResponseTopic:
    return Response.TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
