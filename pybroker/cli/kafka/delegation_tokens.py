"""``pybroker kafka-delegation-tokens``: takes the options of kafka-delegation-tokens.sh and answers as it does."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Verb
from pybroker.cli.kafka.acls import principals
from pybroker.cli.kafka.common.options import on_kafka, only

if TYPE_CHECKING:
    from pyclient.admin import DelegationToken

ACTIONS: Final = ("create", "renew", "expire", "describe")
HEADS: Final = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)


@click.command("kafka-delegation-tokens", cls=Verb)
@click.option("--create", "actions", flag_value="create", multiple=True, help="Create a token.")
@click.option("--renew", "actions", flag_value="renew", multiple=True, help="Let a token be valid for longer.")
@click.option("--expire", "actions", flag_value="expire", multiple=True, help="End a token.")
@click.option("--describe", "actions", flag_value="describe", multiple=True, help="Show tokens.")
@click.option("--owner-principal", multiple=True, metavar="PRINCIPAL", help="The owner: User:alice.")
@click.option("--renewer-principal", multiple=True, metavar="PRINCIPAL", help="With --create: who may renew it.")
@click.option("--max-life-time-period", type=int, metavar="MS", help="Its longest life; -1: as the broker has it.")
@click.option("--renew-time-period", type=int, metavar="MS", help="With --renew: from now; -1: as the broker has it.")
@click.option("--expiry-time-period", type=int, metavar="MS", help="With --expire: from now; -1: at once.")
@click.option("--hmac", metavar="BASE64", help="The secret of the token.")
@on_kafka()
def delegation_tokens(
    cluster: Cluster,
    actions: tuple[str, ...],
    owner_principal: tuple[str, ...],
    renewer_principal: tuple[str, ...],
    max_life_time_period: int | None,
    renew_time_period: int | None,
    expiry_time_period: int | None,
    hmac: str | None,
) -> int:
    """kafka-delegation-tokens.sh: creates, renews, expires and shows delegation tokens."""
    action = only(actions, ACTIONS)
    owners = principals(owner_principal, "--owner-principal")
    if action == "create":
        return create(cluster, owners, principals(renewer_principal, "--renewer-principal"), max_life_time_period)
    if action == "renew":
        return renew(cluster, hmac, renew_time_period)
    if action == "expire":
        return expire(cluster, hmac, expiry_time_period)
    if owners:
        write(f"Calling describe token operation for owners: [{', '.join(owners)}]\n")
    else:
        write("Calling describe token operation for current user.\n")
    with cluster.admin() as admin:
        found = admin.describe_delegation_tokens(owners or None)
    write(f"Total number of tokens : {len(found)}")
    write(table(found))
    return 0


def create(cluster: Cluster, owners: list[str], renewers: list[str], period: int | None) -> int:
    """Creates a token. Raises UsageError without a period, and for several owners."""
    if period is None:
        raise click.UsageError("--create: --max-life-time-period is missing; -1 means the broker's maximum")
    if len(owners) > 1:
        raise click.UsageError("--create: a token has only one --owner-principal")
    told = f"[{', '.join(renewers)}]"
    write(f"Calling create token operation with renewers :{told} , max-life-time-period :{period}\n")
    with cluster.admin() as admin:
        made = admin.create_delegation_token(
            renewers=renewers, owner=owners[0] if owners else None, max_lifetime_ms=period
        )
    write(f"Created delegation token with tokenId : {made.token_id}\n")
    write(table([made]))
    return 0


def renew(cluster: Cluster, hmac: str | None, period: int | None) -> int:
    secret = decoded(hmac)
    if period is None:
        raise click.UsageError("--renew: --renew-time-period is missing; -1 means the broker's default")
    write(f"Calling renew token operation with hmac :{hmac} , renew-time-period :{period}\n")
    with cluster.admin() as admin:
        expiry = admin.renew_delegation_token(secret, renew_period_ms=period)
    write(f"Completed renew operation. New expiry date : {date(expiry)}\n")
    return 0


def expire(cluster: Cluster, hmac: str | None, period: int | None) -> int:
    secret = decoded(hmac)
    if period is None:
        raise click.UsageError("--expire: --expiry-time-period is missing; -1 expires it at once")
    write(f"Calling expire token operation with hmac :{hmac} , expire-time-period :{period}\n")
    with cluster.admin() as admin:
        expiry = admin.expire_delegation_token(secret, expiry_time_period_ms=period)
    write(f"Completed expire operation. New expiry date : {date(expiry)}\n")
    return 0


def decoded(hmac: str | None) -> bytes:
    """Decodes the base64 of an HMAC. Raises UsageError, whose text does not quote it."""
    if hmac is None:
        raise click.UsageError("--hmac is missing")
    try:
        return base64.b64decode(hmac, validate=True)
    except binascii.Error:
        raise click.UsageError("--hmac: it is not base64") from None


def table(tokens: Iterable[DelegationToken]) -> str:
    return "".join(
        "\n" + row(cells)
        for cells in (
            HEADS,
            *(
                (
                    *(each.token_id, each.password, each.owner, each.requester or ""),
                    f"[{', '.join(each.renewers)}]",
                    *map(date, (each.issue_timestamp, each.expiry_timestamp, each.max_timestamp)),
                )
                for each in tokens
            ),
        )
    )


def row(cells: Iterable[str]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)) + "\n"


def date(ms: int) -> str:
    """Formats a time in local time, to the minute."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M", time.localtime(ms // 1000))
    except (ValueError, OverflowError, OSError):
        return str(ms)
