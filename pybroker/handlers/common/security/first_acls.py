"""Stores ACLs at the start, before the first client connects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pybroker.handlers.common.call import Broker
from pybroker.security.acls import AclBinding
from pyclient.protocol import CreateAcls, errors


async def add(bindings: Sequence[AclBinding], broker: Broker) -> int:
    """Stores the ACLs that do not exist yet; returns how many it has stored. Raises KafkaError."""
    known = broker.metadata.image.acls
    new = [each for each in bindings if each.entry not in known.get(each.pattern, ())]
    if not new:
        return 0
    try:
        results = await broker.controller.create_acls(new)
    except errors.NotController:
        await _ask(new, broker)
    else:
        for error in filter(None, results):
            raise error
    return len(new)


async def _ask(bindings: Sequence[AclBinding], broker: Broker) -> None:
    """Asks the controller, which is another broker, to store the ACLs. Raises KafkaError."""
    creations = [
        CreateAcls.Request.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern_type,
            principal=principal,
            host=host,
            operation=operation,
            permission_type=permission,
        )
        for (kind, name, pattern_type), (principal, host, operation, permission) in bindings
    ]
    request = CreateAcls.Request(creations=creations)
    answer = await broker.forwarding.ask(CreateAcls, CreateAcls.max_version, None, request)
    for result in cast(CreateAcls.Response, answer).results:
        if (error := errors.by_code(result.error_code)) is not None:
            raise error(result.error_message)
