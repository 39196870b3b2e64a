"""ApiVersions (18), 0-5: lists the APIs and versions of ``ROWS``, and the features (KIP-35, KIP-511, KIP-584).
Supported features that may be at level 0 are listed only from v4 on, because older clients cannot read them. From v5 on
a client may name the cluster and the broker that it wants to reach. Any other broker answers REBOOTSTRAP_REQUIRED
(KIP-1242).
"""

from __future__ import annotations

import re

from pybroker import handlers
from pybroker.cluster.decisions.features import SUPPORTED
from pybroker.handlers.common.call import Broker, Call
from pyclient.protocol import ApiVersions, errors

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
Response = ApiVersions.Response

ZERO_LEVELS_SINCE = 4


def handle(request: ApiVersions.Request, call: Call) -> ApiVersions.Response:
    """Answers with the served APIs, and notes the client's software on its connection."""
    if call.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (SOFTWARE.fullmatch(name) and SOFTWARE.fullmatch(version)):
            return Response(error_code=errors.InvalidRequest.code)
        call.connection.client_software_name = name
        call.connection.client_software_version = version
    if request.cluster_id is not None and not _is_meant(request, call.broker):
        return Response(error_code=errors.RebootstrapRequired.code)
    image = call.broker.metadata.image
    return Response(
        api_keys=served(),
        finalized_features_epoch=image.features_epoch,
        supported_features=[
            Response.SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in SUPPORTED.items()
            if call.version >= ZERO_LEVELS_SINCE or levels.lowest > 0
        ],
        finalized_features=[
            Response.FinalizedFeatureKey(
                name=name, min_version_level=level, max_version_level=level
            )
            for name, level in image.features.items()
            if level > 0
        ],
    )


def _is_meant(request: ApiVersions.Request, broker: Broker) -> bool:
    return (request.cluster_id, request.node_id) == (broker.cluster_id, broker.node_id)


def served() -> list[ApiVersions.Response.ApiVersion]:
    """Returns the advertised part of ``ROWS`` in the form of the response."""
    return [
        Response.ApiVersion(api_key=api.key, min_version=api.advertised_min, max_version=api.max_version)
        for api in (row.api for row in handlers.ROWS if not row.between_brokers)
    ]


def unsupported(correlation_id: int) -> bytes:
    """Returns the reply to an ApiVersions request of an unknown version: v0, error 35 and our range (KIP-511)."""
    own = [entry for entry in served() if entry.api_key == ApiVersions.key]
    response = Response(error_code=errors.UnsupportedVersion.code, api_keys=own)
    encoded = ApiVersions.encode_response(0, correlation_id, response)
    return encoded if isinstance(encoded, bytes) else b"".join(encoded)  # type: ignore[arg-type]
