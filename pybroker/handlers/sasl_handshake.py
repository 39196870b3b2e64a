"""SaslHandshake (17), 0-1: chooses the mechanism of authentication (KIP-43, KIP-152, KIP-368).

On a listener without SASL it refuses, as Kafka does. But on every listener, a broker of this cluster may begin its
proof here (``cluster.peer_secret``).
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from typing import cast

from pybroker.cluster import peer_secret
from pybroker.handlers.common.call import Call, SaslConnection
from pyclient.protocol import SaslHandshake, errors

FRAMED_SINCE = 1
Response = SaslHandshake.Response


def handle(request: SaslHandshake.Request, call: Call) -> SaslHandshake.Response | Awaitable[SaslHandshake.Response]:
    """Answers with the mechanisms, and UNSUPPORTED_SASL_MECHANISM or ILLEGAL_SASL_STATE if the authentication cannot
    begin.
    """
    connection, is_framed = call.connection, call.version >= FRAMED_SINCE
    sasl, is_peer = connection.sasl, request.mechanism == peer_secret.MECHANISM and is_framed
    if sasl is None:
        return _begin_with_peer(call) if is_peer else Response(error_code=errors.IllegalSaslState.code)
    try:
        if is_peer:
            sasl.on_peer()
            return _begin_with_peer(call)
        sasl.on_handshake(request.mechanism, is_framed=is_framed, now_s=call.broker.loop.time())
    except errors.IllegalSaslState as error:
        return Response(error_code=error.code)
    except errors.UnsupportedSaslMechanism as error:
        refused = Response(error_code=error.code, mechanisms=sasl.mechanisms)
        return cast(SaslConnection, connection).refuse(refused, error)
    return Response(mechanisms=sasl.mechanisms)


def _begin_with_peer(call: Call) -> SaslHandshake.Response:
    broker, nonce = call.broker, secrets.token_bytes(peer_secret.NONCE_SIZE)
    refusal = broker.peer_refusal(call.connection)
    call.connection.broker_id = None
    call.connection.authentication = peer_secret.Server(broker.peer_secret, broker.node_id, nonce, refusal)
    return Response(mechanisms=[peer_secret.MECHANISM])
