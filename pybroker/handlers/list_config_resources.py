"""ListConfigResources (74): lists the resources that have settings. Version 0 lists only client metrics (KIP-714), v1
the named types, or all if none is named (KIP-1142)."""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.cluster.metadata.image import MetadataImage, ResourceType
from pybroker.handlers.common.call import Call
from pyclient.protocol import ListConfigResources, errors

_SUPPORTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(request: ListConfigResources.Request, call: Call) -> ListConfigResources.Response:
    """Answers with the names of each type; UNSUPPORTED_VERSION if a type is unknown."""
    if call.version == 0:
        types: tuple[int, ...] = (ResourceType.CLIENT_METRICS,)
    else:
        types = tuple(dict.fromkeys(request.resource_types)) or _SUPPORTED
    if not set(types) <= set(_SUPPORTED):
        return ListConfigResources.Response(error_code=errors.UnsupportedVersion.code)
    image = call.broker.metadata.image
    return ListConfigResources.Response(
        config_resources=[
            ListConfigResources.Response.ConfigResource(resource_name=name, resource_type=kind)
            for kind in types
            for name in _names(image, kind)
        ]
    )


def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return image.topics
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return (str(id) for id in image.brokers)
    return (name for (type, name), configs in image.resource_configs.items() if type == kind and configs)
