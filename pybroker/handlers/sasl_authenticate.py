"""SaslAuthenticate (36), 0-2: one step of the authentication that SaslHandshake has begun (KIP-152, KIP-368)."""

from __future__ import annotations

from pybroker.cluster.peer_secret import NotAPeer
from pybroker.handlers.common.call import Call
from pyclient.protocol import SaslAuthenticate, errors

Response = SaslAuthenticate.Response


def handle(request: SaslAuthenticate.Request, call: Call) -> SaslAuthenticate.Response:
    """Returns the next message, or the reason why the proof has failed. After a failure it has to start again."""
    connection = call.connection
    if connection.authentication is None:
        return refused(errors.IllegalSaslState())
    try:
        answer, connection.broker_id = connection.authentication.on_message(bytes(request.auth_bytes))
    except NotAPeer as error:
        connection.authentication = None
        return refused(errors.SaslAuthenticationFailed(str(error)))
    if connection.broker_id is not None:
        connection.authentication = None
    return Response(auth_bytes=answer)


def refused(error: errors.KafkaError) -> SaslAuthenticate.Response:
    """The answer to a step that leads nowhere."""
    return Response(error_code=error.code, error_message=str(error))
