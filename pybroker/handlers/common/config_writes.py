"""Refuses changes of settings by a check, writes the others, and answers in the order of the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pybroker.cluster.decisions.config_changes import ConfigChange
from pybroker.handlers.common.call import Call
from pyclient.protocol.errors import KafkaError

Write = Callable[[Any, Call], Awaitable[Any]]
Answer = Callable[[ConfigChange, KafkaError | None], Any]
Refuse = Callable[[Sequence[ConfigChange], Call], Awaitable[dict[int, KafkaError]]]
"""Returns the errors of refused changes, by their indexes in the sequence."""


def passing(refuse: Refuse, change_of: Callable[[Any], ConfigChange], answer: Answer, write: Write) -> Write:
    """Wraps ``write`` so that it gets only resources that ``refuse`` does not refuse; the others get its errors."""

    async def write_what_passes(request: Any, call: Call) -> Any:
        changes = [change_of(resource) for resource in request.resources]
        refused = await refuse(changes, call)
        if not refused:
            return await write(request, call)
        request.resources = [each for index, each in enumerate(request.resources) if index not in refused]
        response = await write(request, call)
        passed = iter(response.responses)
        response.responses = [
            answer(change, refused[index]) if index in refused else next(passed) for index, change in enumerate(changes)
        ]
        return response

    return write_what_passes
