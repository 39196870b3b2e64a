"""The check that a request comes from a broker of this cluster."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pyclient.protocol import errors


def asking_broker(call: Call) -> int:
    """Returns the id of the asking broker. Raises ClusterAuthorizationFailed if the client is no broker."""
    broker_id = call.connection.broker_id
    if broker_id is None:
        raise errors.ClusterAuthorizationFailed("only brokers of this cluster may send this request")
    return broker_id
