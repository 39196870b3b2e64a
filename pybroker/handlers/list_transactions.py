"""ListTransactions (66), 0-2: lists the transactional ids of a broker (KIP-664). Version 1 can filter by duration
(KIP-994), v2 by a pattern of ids (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import re2

from pybroker.coordinator import topic_regex
from pybroker.coordinator.txn.describing import Filter, read_states
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, settled, walk
from pybroker.handlers.common.security.rights import DESCRIBE_TRANSACTIONAL_ID, permitted
from pyclient.protocol import ListTransactions, errors
from pyclient.protocol.errors import KafkaError

MAX_MEMORY: Final = 1 << 18
"""How many bytes a compiled pattern may take. With more, matching one name could take tens of milliseconds."""
_OPTIONS: Final = topic_regex.options(MAX_MEMORY)

Listed = ListTransactions.Response.TransactionState


async def handle(request: ListTransactions.Request, call: Call) -> ListTransactions.Response:
    """Answers with the transactional ids that this broker coordinates and that match all filters."""
    states, unknown = read_states(request.state_filters)
    wanted = Filter(states, frozenset(request.producer_id_filters), request.duration_filter)
    try:
        pattern = _pattern(request.transactional_id_pattern)
        found = await call.broker.transactions.list(wanted)
    except KafkaError as error:
        return ListTransactions.Response(error_code=error.code)
    found = await permitted(call, DESCRIBE_TRANSACTIONAL_ID, found, attrgetter("transactional_id"))
    if pattern is not None:
        found = await settled(walk(_matching(pattern, found), call))
    return ListTransactions.Response(unknown_state_filters=unknown, transaction_states=found)


def _pattern(text: str | None) -> Any:
    """Compiles the pattern with RE2, which matches in linear time. Raises InvalidRegularExpression."""
    if not text:
        return None
    topic_regex.check_weight(text)
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise errors.InvalidRegularExpression(f"{text!r} is not a valid regular expression") from error


def _matching(pattern: Any, listed: Sequence[Listed]) -> Paced[list[Listed]]:
    found = []
    for each in listed:
        yield
        if pattern.fullmatch(each.transactional_id):
            found.append(each)
    return found
