"""DescribeClientQuotas (48), 0-1: returns the quotas of the entities that match (KIP-546)."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pyclient.protocol import DescribeClientQuotas
from pyclient.protocol.errors import KafkaError

Response = DescribeClientQuotas.Response


def handle(request: DescribeClientQuotas.Request, call: Call) -> DescribeClientQuotas.Response:
    """Answers with the stored quotas, whether or not a client with them is connected."""
    # imported here, so that a broker without quotas need not load it
    from pybroker.cluster.decisions.quota_changes import Component, described

    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        found = described(call.broker.metadata.image, components, strict=request.strict)
    except KafkaError as error:
        return Response(error_code=error.code, error_message=str(error), entries=None)
    return Response(
        entries=[
            Response.EntryData(
                entity=[Response.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[Response.ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found
        ]
    )
