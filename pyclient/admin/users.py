"""Users of SCRAM (KIP-554): list them, set and delete their passwords. The client sends only salted passwords."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from functools import partial

from pyclient.admin.base import Base, names
from pyclient.admin.fan_out import Anywhere, fan_out
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.types import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyclient.errors import CONTROLLER_LOST, KafkaError, of_code
from pyclient.errors import check as check_code
from pyclient.protocol import AlterUserScramCredentials, DescribeUserScramCredentials
from pyclient.protocol.acls import AclOperation
from pyclient.protocol.threads import on_thread

Alteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


class Users(Base):
    """The part of the admin client for users."""

    @needing(cluster=AclOperation.DESCRIBE)
    async def describe_user_scram_credentials(
        self, users: str | Iterable[str] | None = None, *, timeout: float | None = None, check: bool = True
    ) -> Results[str, list[ScramCredentialInfo]]:
        """Returns the mechanisms and iterations of these users, or of all users with a password. Raises the first error
        unless ``check=False``; a user without a password causes ResourceNotFound.
        """
        request = DescribeUserScramCredentials.Request
        wanted = None if users is None else [request.UserName(name=each) for each in names(users)]
        if wanted == []:
            return Results()
        message = request(users=wanted)
        response = await self._any(DescribeUserScramCredentials, message, self._deadline(timeout))
        check_code(response.error_code, response.error_message)
        results: Results[str, list[ScramCredentialInfo]] = Results()
        for row in response.results:
            infos = [ScramCredentialInfo(_mechanism(each.mechanism), each.iterations) for each in row.credential_infos]
            results.put(row.user, of_code(row.error_code, row.error_message) or infos)
        return results.checked(check)

    @needing(cluster=AclOperation.ALTER)
    async def alter_user_scram_credentials(
        self, alterations: Iterable[Alteration], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, None]:
        """Sets and deletes passwords. Each user is altered completely or not at all. Raises the first error unless
        ``check=False``.
        """
        deadline = self._deadline(timeout)
        request = AlterUserScramCredentials.Request
        deletions: dict[str, list[AlterUserScramCredentials.Request.ScramCredentialDeletion]] = {}
        upsertions: dict[str, list[AlterUserScramCredentials.Request.ScramCredentialUpsertion]] = {}
        for each in alterations:
            if isinstance(each, UserScramCredentialDeletion):
                row = request.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
                deletions.setdefault(each.user, []).append(row)
            else:
                upsertions.setdefault(each.user, []).append(await _upsertion(each))

        async def ask(node: int, users: list[str]) -> dict[str, KafkaError | None]:
            message = request(
                deletions=[row for user in users for row in deletions.get(user, ())],
                upsertions=[row for user in users for row in upsertions.get(user, ())],
            )
            response = await self._client.send(node, AlterUserScramCredentials, message)
            return {row.user: of_code(row.error_code, row.error_message) for row in response.results}

        places = Anywhere(self._client, controller=True)
        users = [*deletions, *upsertions]
        results = await fan_out(self._client, users, places, ask, deadline, retry=CONTROLLER_LOST)
        return results.checked(check)


async def _upsertion(
    given: UserScramCredentialUpsertion,
) -> AlterUserScramCredentials.Request.ScramCredentialUpsertion:
    """Returns the request's row, after computing the salted password on a thread."""
    from pyclient.protocol import scram

    info = given.credential_info
    salt = scram.salt_of(secrets.token_bytes(scram.SALT_BYTES)) if given.salt is None else given.salt
    mechanism = scram.MECHANISMS[info.mechanism.label]
    work = partial(scram.salted_password, mechanism, given.password, salt, info.iterations)
    return AlterUserScramCredentials.Request.ScramCredentialUpsertion(
        name=given.user,
        mechanism=info.mechanism,
        iterations=info.iterations,
        salt=salt,
        salted_password=await on_thread(asyncio.get_running_loop(), "scram", work),
    )


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        return ScramMechanism.UNKNOWN
