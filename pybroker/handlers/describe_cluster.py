"""DescribeCluster (60), 0-2: returns cluster id, controller and brokers. Version 1 adds endpoint types (KIP-919)."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security import authorized_operations
from pyclient.protocol import DescribeCluster, errors

BROKERS, CONTROLLERS = 1, 2
NOWHERE = -1
"""The port of a broker whose address is unknown."""


def handle(request: DescribeCluster.Request, call: Call) -> DescribeCluster.Response:
    """Answers with all live brokers, each with its address for the client's listener.

    On request, also lists fenced brokers, which were in the cluster before. Their addresses are unknown.
    """
    if request.endpoint_type == CONTROLLERS:
        return _refused(errors.MismatchedEndpointType("this is the endpoint of a broker, not of a controller"))
    if request.endpoint_type != BROKERS:
        return _refused(errors.UnsupportedEndpointType(f"endpoint type {request.endpoint_type} is unknown"))
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
    if request.include_fenced_brokers:
        response.brokers += [
            DescribeCluster.Response.DescribeClusterBroker(broker_id=id, port=NOWHERE, is_fenced=True)
            for id in sorted(image.boots.keys() - image.brokers.keys())
        ]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.of_cluster(call)
    return response


def _refused(error: errors.KafkaError) -> DescribeCluster.Response:
    return DescribeCluster.Response(error_code=error.code, error_message=str(error))
