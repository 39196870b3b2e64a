"""Stores SCRAM passwords of users at the start, before the first client connects.

A password is stored if the user has none, or a different one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pybroker.cluster.decisions.scram_changes import TYPES, ScramChange
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers.common.call import Broker
from pybroker.security.sasl.first_users import FirstUser
from pyclient.protocol import AlterUserScramCredentials, errors

NUMBERS = {mechanism.name: number for number, mechanism in TYPES.items()}
Upsertion = AlterUserScramCredentials.Request.ScramCredentialUpsertion


async def add(users: Sequence[FirstUser], broker: Broker) -> list[str]:
    """Stores the missing passwords; returns the names of their users. Raises KafkaError."""
    image, changes = broker.metadata.image, []
    for user in users:
        stored = image.configs(ResourceType.USER, user.name).get(user.mechanism.name)
        if await broker.loop.run_in_executor(broker.unpackers, user.is_met, stored):
            continue
        salted = await broker.loop.run_in_executor(broker.unpackers, user.salted)
        number = NUMBERS[user.mechanism.name]
        changes.append(ScramChange(user.name, number, user.iterations, user.salt, salted, user.is_new_only))
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
    """Asks the controller, which is another broker, to store the users. Raises KafkaError."""
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
