"""Users that exist before the first client comes: their passwords for SCRAM are stored where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pybroker.cluster.decisions.scram_changes import TYPES, ScramChange
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers.common.call import Broker
from pybroker.security.first_users import FirstUser
from pyclient.protocol import AlterUserScramCredentials, errors

NUMBERS = {mechanism.name: number for number, mechanism in TYPES.items()}
Upsertion = AlterUserScramCredentials.Request.ScramCredentialUpsertion


async def add(users: Sequence[FirstUser], broker: Broker) -> list[str]:
    """The names of those who have a password now. Raises KafkaError."""
    image = broker.metadata.image
    missing = [user for user in users if user.mechanism.name not in image.configs(ResourceType.USER, user.name)]
    changes = [
        ScramChange(
            user.name,
            NUMBERS[user.mechanism.name],
            user.iterations,
            user.salt,
            await broker.loop.run_in_executor(broker.unpackers, user.salted),
            is_new_only=True,
        )
        for user in missing
    ]
    if not changes:
        return []
    try:
        results = await broker.controller.alter_scram(changes)
    except errors.NotController:
        await _ask(changes, broker)
    else:
        for error in filter(None, results.values()):
            raise error
    return [change.user for change in changes]


async def _ask(changes: Sequence[ScramChange], broker: Broker) -> None:
    """The controller stores them, where another broker is it. Raises KafkaError."""
    request = AlterUserScramCredentials.Request(
        upsertions=[
            Upsertion(
                name=change.user,
                mechanism=change.mechanism,
                iterations=change.iterations,
                salt=change.salt,
                salted_password=change.salted_password or b"",
            )
            for change in changes
        ]
    )
    answer = await broker.forwarding.ask(AlterUserScramCredentials, 0, None, request)
    for result in cast(AlterUserScramCredentials.Response, answer).results:
        if (error := errors.by_code(result.error_code)) is not None:
            raise error(result.error_message)
