"""Envelope (58), 0: carries a client's request that another broker forwards to the controller (KIP-590).

The response's data begin with the version of the metadata that the request has made, in 8 bytes. The
other broker waits for it before it answers. Only brokers of this cluster may send it.
"""

from __future__ import annotations

from pybroker import handlers
from pybroker.handlers.common import forwarding
from pybroker.handlers.common.between_brokers import asking_broker
from pybroker.handlers.common.call import Call
from pyclient.protocol import Envelope, errors


async def handle(request: Envelope.Request, call: Call) -> Envelope.Response:
    """The answer of the handler that the client's request is for."""
    try:
        asking_broker(call)
        data = await forwarding.open_envelope(request, call, handlers.CONTROLLED)
    except errors.KafkaError as error:
        return Envelope.Response(error_code=error.code)
    return Envelope.Response(response_data=data)
