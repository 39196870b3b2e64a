"""SaslHandshake (17), 0-1: chooses the way to authenticate (KIP-43, KIP-152).

Clients do not authenticate yet, so as a listener of Kafka without SASL this refuses; but a broker
of this cluster begins its proof here (``cluster.peer_secret``).
"""

from __future__ import annotations

import secrets

from pybroker.cluster import peer_secret
from pybroker.handlers.common.call import Call
from pyclient.protocol import SaslHandshake, errors

FRAMED_SINCE = 1


def handle(request: SaslHandshake.Request, call: Call) -> SaslHandshake.Response:
    """Ready for a broker's proof, ILLEGAL_SASL_STATE for everything else."""
    if request.mechanism != peer_secret.MECHANISM or call.version < FRAMED_SINCE:
        return SaslHandshake.Response(error_code=errors.IllegalSaslState.code)
    broker, nonce = call.broker, secrets.token_bytes(peer_secret.NONCE_SIZE)
    refusal = broker.peer_refusal(call.connection)
    call.connection.broker_id = None
    call.connection.authentication = peer_secret.Server(broker.peer_secret, broker.node_id, nonce, refusal)
    return SaslHandshake.Response(mechanisms=[peer_secret.MECHANISM])
