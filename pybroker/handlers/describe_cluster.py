"""DescribeCluster (60), 0-2: returns cluster id, controller and brokers; v1 endpoint types (KIP-919)."""

from __future__ import annotations

from pybroker.handlers.common import authorized_operations
from pybroker.handlers.common.call import Call
from pyclient.protocol import DescribeCluster, errors

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeCluster.Request, call: Call) -> DescribeCluster.Response:
    """Every live broker by the listener that the client came by."""
    if request.endpoint_type == CONTROLLERS:
        return _refused(errors.MismatchedEndpointType("this is a broker's endpoint"))
    if request.endpoint_type != BROKERS:
        return _refused(errors.UnsupportedEndpointType(f"endpoint type {request.endpoint_type}"))
    image = call.broker.metadata.image
    response = DescribeCluster.Response(
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.metadata.live_controller,
        brokers=[
            DescribeCluster.Response.DescribeClusterBroker(
                broker_id=id, host=host, port=port, rack=image.brokers[id].rack
            )
            for id, (host, port) in call.broker.endpoint_for(call.connection).items()
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.CLUSTER
    return response


def _refused(error: errors.KafkaError) -> DescribeCluster.Response:
    return DescribeCluster.Response(error_code=error.code, error_message=str(error))
