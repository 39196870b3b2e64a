"""``kafka-configs --entity-type users``: passwords of SCRAM, in the words of Kafka's script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import failures

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import (
        AlterConfigOp,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    Alteration = UserScramCredentialUpsertion | UserScramCredentialDeletion

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]{1,9}),)?password=(.+)", re.DOTALL)


def alterations(user: str, ops: Iterable[AlterConfigOp]) -> list[Alteration]:
    """Returns the alterations of a user's credentials. Raises UsageError, which shows no password."""
    from pyclient.admin import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from pyclient.admin.types import SCRAM_ITERATIONS

    if not user:
        raise click.UsageError("the default user has no password: name a user by --entity-name or --user")
    found: list[Alteration] = []
    for op in ops:
        mechanism: ScramMechanism = ScramMechanism[op.name.replace("-", "_")]
        if op.value is None:
            found.append(UserScramCredentialDeletion(user, mechanism))
            continue
        parts = _CREDENTIAL.fullmatch(op.value)
        if parts is None:
            raise click.UsageError(f"{op.name}: it is '{op.name}=[iterations=8192,password=…]'")
        iterations = int(parts[1] or SCRAM_ITERATIONS)
        if iterations < SCRAM_ITERATIONS:
            raise click.UsageError(f"Iterations {iterations} is less than the minimum {SCRAM_ITERATIONS} of {op.name}")
        found.append(UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, iterations), parts[2]))
    return found


def alter(admin: Admin, user: str, wanted: list[Alteration]) -> int:
    """Sets and deletes passwords."""
    done = admin.alter_user_scram_credentials(wanted, check=False)
    if done.errors:
        return failures("user", done.errors)
    write(f"Completed updating config for user {user}.\n")
    return 0


def describe(admin: Admin, user: str | None) -> int:
    """Shows the mechanisms of a user, or of all users. Like Kafka's script, shows nothing for an unknown user."""
    found = admin.describe_user_scram_credentials(None if user is None else [user], check=False)
    for name, infos in found.items():
        told = ", ".join(f"{each.mechanism.label}=iterations={each.iterations}" for each in infos)
        write(f"SCRAM credential configs for user-principal '{name}' are {told}\n")
    return failures("user", {name: error for name, error in found.errors.items() if error.name != "RESOURCE_NOT_FOUND"})
