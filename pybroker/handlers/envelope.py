"""Envelope (58), 0: carries a client's request that another broker forwards to the controller (KIP-590).

The response's data begin with 8 bytes: the version of the metadata after the request. The other broker waits until it
has that version before it answers its client. Only brokers of this cluster may send an Envelope.
"""

from __future__ import annotations

from pybroker import handlers
from pybroker.handlers.common import forwarding
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.between_brokers import asking_broker
from pyclient.protocol import Envelope, errors


async def handle(request: Envelope.Request, call: Call) -> Envelope.Response:
    """Answers with the response of the handler of the client's request."""
    try:
        asking_broker(call)
        data = await forwarding.open_envelope(request, call, handlers.CONTROLLED)
    except errors.KafkaError as error:
        return Envelope.Response(error_code=error.code)
    return Envelope.Response(response_data=data)
