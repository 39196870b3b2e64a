"""ListTransactions (66), 0-2: lists the transactional ids of a broker (KIP-664); v1 by duration (KIP-994), v2 by a
pattern of ids (KIP-1152).
"""

from __future__ import annotations

from operator import attrgetter

import re2

from pybroker.coordinator.txn.describing import Filter, Pattern, read_states
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.rights import DESCRIBE_TRANSACTIONAL_ID, permitted
from pyclient.protocol import ListTransactions, errors
from pyclient.protocol.errors import KafkaError


async def handle(request: ListTransactions.Request, call: Call) -> ListTransactions.Response:
    """Answers with the transactional ids that this broker coordinates and that match all filters."""
    states, unknown = read_states(request.state_filters)
    try:
        wanted = Filter(
            states,
            frozenset(request.producer_id_filters),
            request.duration_filter,
            _pattern(request.transactional_id_pattern),
        )
        found = await call.broker.transactions.list(wanted)
    except KafkaError as error:
        return ListTransactions.Response(error_code=error.code)
    found = await permitted(call, DESCRIBE_TRANSACTIONAL_ID, found, attrgetter("transactional_id"))
    return ListTransactions.Response(unknown_state_filters=unknown, transaction_states=found)


def _pattern(text: str | None) -> Pattern | None:
    """Compiles the pattern with RE2, which matches in linear time. Raises InvalidRegularExpression."""
    if not text:
        return None
    try:
        options = re2.Options()
        options.log_errors = False
        pattern: Pattern = re2.compile(text, options)
        return pattern
    except re2.error as error:
        raise errors.InvalidRegularExpression(f"{text!r} is not a valid regular expression") from error
