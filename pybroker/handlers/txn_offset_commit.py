"""TxnOffsetCommit (28): commits offsets of a group within a transaction; v2 leader epoch (KIP-320), v3 group metadata
(KIP-447), v4 TRANSACTION_ABORTABLE, v5 adds the group to the transaction (KIP-890).

Partitions that do not exist are refused here; the rest is the coordinator's matter.
"""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.existing import of_existing
from pyclient.protocol import TxnOffsetCommit

Response = TxnOffsetCommit.Response


async def handle(request: TxnOffsetCommit.Request, call: Call) -> TxnOffsetCommit.Response:
    """An outcome per partition, in the order of the request's topics."""
    response = Response()
    kinds = (
        lambda asked: Response.TxnOffsetCommitResponseTopic(name=asked.name),
        Response.TxnOffsetCommitResponsePartition,
    )
    await of_existing(
        request, call, response.topics, kinds, lambda part: call.broker.groups.txn_offset_commit(part, call.version)
    )
    return response
