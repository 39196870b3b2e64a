"""The check that a request comes from a broker of this cluster."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pyclient.protocol import errors


def asking_broker(call: Call) -> int:
    """The broker that asks. Raises ClusterAuthorizationFailed where the client is none."""
    broker_id = call.connection.broker_id
    if broker_id is None:
        raise errors.ClusterAuthorizationFailed("only brokers of this cluster may ask this")
    return broker_id
