"""SaslAuthenticate (36), 0-2: one step of the authentication that SaslHandshake has begun (KIP-152, KIP-368)."""

from __future__ import annotations

from collections.abc import Awaitable
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

from pybroker.cluster.peer_secret import NotAPeer
from pybroker.handlers.common.call import Call, SaslConnection
from pyclient.protocol import SaslAuthenticate, errors

if TYPE_CHECKING:
    from pybroker.security.sasl.authentication import Authentication

Response = SaslAuthenticate.Response


def handle(
    request: SaslAuthenticate.Request, call: Call
) -> SaslAuthenticate.Response | Awaitable[SaslAuthenticate.Response]:
    """Answers with the mechanism's next message, or an error; on a SASL listener the connection then closes."""
    connection, message = cast(SaslConnection, call.connection), bytes(request.auth_bytes)
    sasl = connection.sasl
    try:
        if connection.authentication is not None:
            return _on_peer(message, call)
        if sasl is None:
            return refused(errors.IllegalSaslState())
        answer = sasl.on_message(message, call.broker.loop.time())
    except errors.IllegalSaslState as error:
        return refused(error)
    except errors.SaslAuthenticationFailed as error:
        return refused(error) if sasl is None else connection.refuse(refused(error), error)
    return _later(answer, connection, sasl) if isinstance(answer, Future) else _answered(answer, connection, sasl)


async def _later(
    answer: Future[bytes], connection: SaslConnection, sasl: Authentication
) -> SaslAuthenticate.Response:
    """Returns the response to a message after a thread has handled the message."""
    try:
        found = await connection.answer(answer)
    except errors.SaslAuthenticationFailed as error:
        return await connection.refuse(refused(error), error, is_due=True)
    return _answered(found, connection, sasl)


def _answered(answer: bytes, connection: SaslConnection, sasl: Authentication) -> SaslAuthenticate.Response:
    connection.on_said()
    return Response(auth_bytes=answer, session_lifetime_ms=sasl.lifetime_ms if sasl.is_known else 0)


def _on_peer(message: bytes, call: Call) -> SaslAuthenticate.Response:
    """Handles a step of a broker's proof. Raises SaslAuthenticationFailed; the broker then has to start again."""
    connection = cast(SaslConnection, call.connection)
    assert connection.authentication is not None
    try:
        answer, connection.broker_id = connection.authentication.on_message(message)
    except NotAPeer as error:
        connection.authentication = None
        raise errors.SaslAuthenticationFailed(str(error)) from None
    if connection.broker_id is not None:
        connection.authentication = connection.share = None
        if connection.sasl is not None:
            connection.sasl.on_proved()
            connection.on_said()
    return Response(auth_bytes=answer)


def refused(error: errors.KafkaError) -> SaslAuthenticate.Response:
    """Returns the response to a step that failed."""
    return Response(error_code=error.code, error_message=str(error))
