"""DescribeTransactions (65), 0: shows the producer and the state of transactional ids (KIP-664)."""

from __future__ import annotations

from operator import attrgetter

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pybroker.handlers.common.security.rights import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID, check, permitted
from pyclient.protocol import DescribeTransactions
from pyclient.protocol.errors import KafkaError

TransactionState = DescribeTransactions.Response.TransactionState


async def handle(
    request: DescribeTransactions.Request, call: Call
) -> DescribeTransactions.Response:
    """Answers with the state of each transactional id, or with its error. A repeated id is answered once."""
    states = await one_by_one(dict.fromkeys(request.transactional_ids), lambda each: _describe(each, call), call)
    return DescribeTransactions.Response(transaction_states=states)


async def _describe(
    transactional_id: str, call: Call
) -> DescribeTransactions.Response.TransactionState:
    try:
        check(call, DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        found: DescribeTransactions.Response.TransactionState
        found = await call.broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    found.topics = await permitted(call, DESCRIBE_TOPIC, found.topics, attrgetter("topic"))
    return found
