"""AlterClientQuotas (49), 0-1: sets and removes quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import AlterClientQuotas
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    from pybroker.cluster.decisions.quota_changes import QuotaChange

Entry = AlterClientQuotas.Request.EntryData
Response = AlterClientQuotas.Response


async def handle(request: AlterClientQuotas.Request, call: Call) -> AlterClientQuotas.Response:
    """Answers with one result per entity, when the quotas are stored."""
    lists = "entries", "entries"
    response: AlterClientQuotas.Response = await in_writes(request, call, _at_controller, lists, _key)
    return response


@in_turns
def refused(
    request: AlterClientQuotas.Request, call: Call, error: KafkaError
) -> Paced[AlterClientQuotas.Response]:
    """Returns the response to a client that may not change quotas."""
    response = Response()
    for entry in request.entries:
        yield
        response.entries.append(_result(_entity(entry), error))
    return response


def _key(entry: Entry) -> Hashable:
    return frozenset(_entity(entry))


async def _alter(request: AlterClientQuotas.Request, call: Call) -> AlterClientQuotas.Response:
    changes = [_change(entry) for entry in request.entries]
    try:
        results = await call.broker.controller.alter_quotas(changes, validate_only=request.validate_only)
    except KafkaError as error:
        results = dict.fromkeys((change.key for change in changes), error)
    return Response(entries=[_result(entity, error) for entity, error in results.items()])


_at_controller = forwarded(AlterClientQuotas, _alter)


def _change(entry: Entry) -> QuotaChange:
    from pybroker.cluster.decisions.quota_changes import QuotaChange  # a broker without quotas need not have it

    return QuotaChange(_entity(entry), [(op.key, None if op.remove else op.value) for op in entry.ops])


def _entity(entry: Entry) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.entity_type, each.entity_name) for each in entry.entity)


def _result(entity: tuple[tuple[str, str | None], ...], error: KafkaError | None) -> Response.EntryData:
    named = [Response.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    if error is None:
        return Response.EntryData(entity=named)
    return Response.EntryData(entity=named, error_code=error.code, error_message=str(error))
