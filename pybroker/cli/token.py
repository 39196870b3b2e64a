"""``pybroker token``: create, renew, expire and list delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.common.acl_options import principal
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import from_cluster
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.plans import at_once, nothing_was_changed
from pybroker.cli.common.verbs import Failure, Suggesting, with_unit

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import DelegationToken

COLUMNS: Final = ("token", "owner", "renewers", "issued", "expires", "lasts_until")
CREATING: Final = """
pybroker token create --renewer User:bob --lifetime 7d
pybroker topic list -X sasl.tokenauth=true -X sasl.username=TOKEN -X sasl.password=HMAC -X sasl.mechanism=SCRAM-SHA-256
"""


class Period(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A time in ms, or with a unit: ``7d``."""

    name = "time"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        text = with_unit("time.ms", str(value))
        if not text.isascii() or not text.isdecimal() or not int(text) < 1 << 63:
            self.fail(f"{value!r} is not a time: give milliseconds, or for example 12h or 7d", parameter, context)
        return int(text)


def token_ids(admin: Admin) -> Iterable[str]:
    return (each.token_id for each in admin.describe_delegation_tokens())


TOKEN: Final = from_cluster(token_ids)


@click.group(cls=Suggesting)
def token() -> None:
    """Delegation tokens, by which others may come as a user, for a while."""


@token.command("list")
@click.option("--owner", "owners", multiple=True, metavar="USER", help="Only those of this user.")
@click.option("--hmac", is_flag=True, help="Also the secrets, by which one logs in.")
@on_cluster
@with_output
def list_tokens(cluster: Cluster, output: str, owners: tuple[str, ...], hmac: bool) -> None:
    """Lists tokens, as far as you may see them."""
    with cluster.admin() as admin:
        found = admin.describe_delegation_tokens(list(map(principal, owners)) or None)
    show_tokens(output, found, hmac)


@token.command(examples=CREATING)
@click.option("--owner", metavar="USER", help="The user who comes in by it [you]; for another you need create-tokens.")
@click.option("--renewer", "renewers", multiple=True, metavar="USER", help="A user who may renew it besides.")
@click.option("--lifetime", type=Period(), metavar="TIME", help="Its longest life: 7d [as long as the broker lets].")
@on_cluster
@with_output
def create(cluster: Cluster, output: str, owner: str | None, renewers: tuple[str, ...], lifetime: int | None) -> None:
    """Creates a token and shows its secret, the hmac. One logs in with both by SCRAM, as its owner."""
    whose = None if owner is None else principal(owner)
    with cluster.admin() as admin:
        made = admin.create_delegation_token(
            renewers=list(map(principal, renewers)), owner=whose, max_lifetime_ms=-1 if lifetime is None else lifetime
        )
    show_tokens(output, [made], True)


@token.command()
@click.argument("id", metavar="TOKEN", shell_complete=TOKEN)
@click.option("--period", type=Period(), metavar="TIME", help="Valid for so long from now: 1d [as the broker has it].")
@on_cluster
@with_output
def renew(cluster: Cluster, output: str, id: str, period: int | None) -> None:
    """Lets a token be valid for longer, up to its longest life."""
    with cluster.admin() as admin:
        known = found(admin, id)
        expiry = admin.renew_delegation_token(known.hmac, renew_period_ms=-1 if period is None else period)
    show(output, ("token", "expires"), [(id, time_text(expiry))], documents=[{"token": id, "expires_ms": expiry}])


@token.command()
@click.argument("id", metavar="TOKEN", shell_complete=TOKEN)
@click.option("--in", "period", type=Period(), metavar="TIME", help="After this time: 1h [at once].")
@at_once
@on_cluster
@with_output
def expire(cluster: Cluster, output: str, id: str, period: int | None, dry_run: bool) -> None:
    """Expires a token. From then on, no client can log in with it."""
    with cluster.admin() as admin:
        known = found(admin, id)
        if dry_run:
            show_tokens(output, [known], False)
            nothing_was_changed()
            return
        expiry = admin.expire_delegation_token(known.hmac, expiry_time_period_ms=-1 if period is None else period)
    show(output, ("token", "expires"), [(id, time_text(expiry))], documents=[{"token": id, "expires_ms": expiry}])


def found(admin: Admin, id: str) -> DelegationToken:
    """Returns the token of an id. Raises Failure."""
    for each in admin.describe_delegation_tokens():
        if each.token_id == id:
            return each
    raise Failure(f"there is no token {id}, or you may not see it: `pybroker token list` shows what there is")


def show_tokens(output: str, tokens: Iterable[DelegationToken], with_hmac: bool) -> None:
    given = sorted(tokens, key=lambda each: (each.owner, each.issue_timestamp, each.token_id))
    rows = [
        (
            *(each.token_id, each.owner, each.renewers or None),
            *map(time_text, (each.issue_timestamp, each.expiry_timestamp, each.max_timestamp)),
            *([each.password] if with_hmac else []),
        )
        for each in given
    ]
    documents = [
        {
            "token": each.token_id,
            "owner": each.owner,
            "requester": each.requester,
            "renewers": list(each.renewers),
            "issued_ms": each.issue_timestamp,
            "expires_ms": each.expiry_timestamp,
            "lasts_until_ms": each.max_timestamp,
            **({"hmac": each.password} if with_hmac else {}),
        }
        for each in given
    ]
    show(output, (*COLUMNS, *(["hmac"] if with_hmac else [])), rows, documents=documents, none="no tokens")


def time_text(ms: int) -> str:
    """Formats a time in local time, to the second."""
    try:
        return datetime.fromtimestamp(ms // 1000).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(ms)
