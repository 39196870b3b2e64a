"""``pybroker quota``: list, set and unset the quotas of users, client ids and addresses."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.plans import at_once, nothing_was_changed
from pybroker.cli.common.units import SIZES, size_text
from pybroker.cli.common.verbs import Suggesting, complain, failures

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import ClientQuotaEntity, ClientQuotaFilterComponent

COLUMNS: Final = ("user", "client", "ip", "quota", "value")
TYPES: Final = ("user", "client", "ip")
DEFAULT: Final = "(default)"
"""Stands for the default, which applies to all that have no quota of their own."""
KEYS: Final = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "mutation": "controller_mutation_rate",
    "connection": "connection_creation_rate",
}
"""Kafka's names of quotas, by our options."""
OF_IP: Final = ("connection",)
"""The quotas of addresses. Users and clients have the others."""
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)(?:/s)?")
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%?")
SETTING: Final = """
pybroker quota set --user alice --client app --produce 1MiB --fetch 2MiB
pybroker quota set --user-defaults --request 50
pybroker quota set --ip 10.0.0.7 --connection 5
"""


class Rate(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Bytes in a second: ``1048576``, ``1MiB``, ``1MiB/s``."""

    name = "bytes"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        found = _RATE.fullmatch(str(value))
        if found is None or (found[2] or "B") not in SIZES:
            self.fail(f"{value!r} is not a rate: give bytes per second, such as 500kB or 1MiB", parameter, context)
        return finite(self, float(found[1]) * SIZES[found[2] or "B"], parameter, context)


class Percent(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Time of a thread in percent: ``50``, ``50%``. Several threads have more than 100."""

    name = "percent"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        found = _PERCENT.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a number of percent", parameter, context)
        return finite(self, float(found[1]), parameter, context)


def finite(
    kind: click.ParamType[Any], value: float, parameter: click.Parameter | None, context: click.Context | None
) -> float:
    """Returns the value if a broker accepts it as a quota. Raises UsageError."""
    if not 0 < value < float("inf"):
        kind.fail("a quota is greater than 0", parameter, context)
    return value


def entity_names(*given: tuple[str | None, bool]) -> dict[str, str]:
    """Returns the names of an entity by type. ``given`` has a name for each type, and whether the default is meant.

    Raises UsageError.
    """
    names: dict[str, str] = {}
    for kind, (name, is_default) in zip(TYPES, given, strict=True):
        if name is not None and is_default:
            raise click.UsageError(f"use either --{kind} or --{kind}-defaults")
        if name == "":
            raise click.UsageError(f"--{kind}: the name is empty; use --{kind}-defaults for the default")
        if name is not None or is_default:
            names[kind] = (name or "").removeprefix("User:" if kind == "user" else "")
    if "ip" in names and len(names) > 1:
        raise click.UsageError("an address has its own quotas: --ip cannot be used with --user or --client")
    return names


def with_entity(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb ``names``: by type, with an empty name for the default."""

    @functools.wraps(function)
    def call(
        user: str | None,
        client: str | None,
        ip: str | None,
        user_defaults: bool,
        client_defaults: bool,
        ip_defaults: bool,
        **options: Any,
    ) -> Any:
        names = entity_names((user, user_defaults), (client, client_defaults), (ip, ip_defaults))
        return function(names=names, **options)

    options = (
        click.option("--user", metavar="USER", help="A user."),
        click.option("--client", metavar="ID", help="A client id."),
        click.option("--ip", metavar="ADDRESS", help="An address that clients come from."),
        click.option("--user-defaults", is_flag=True, help="Each user that has no quota of its own."),
        click.option("--client-defaults", is_flag=True, help="Each client id that has no quota of its own."),
        click.option("--ip-defaults", is_flag=True, help="Each address that has no quota of its own."),
    )
    for option in reversed(options):
        call = option(call)
    return call


@click.group(cls=Suggesting)
def quota() -> None:
    """Quotas: how much a user, a client id or an address may do in a second."""


@quota.command("list")
@with_entity
@on_cluster
@with_output
def list_quotas(cluster: Cluster, output: str, names: dict[str, str]) -> None:
    """Lists quotas: all, or those of a user, a client id or an address."""
    with cluster.admin() as admin:
        found = admin.describe_client_quotas(components(names))
    show_quotas(output, found)


@quota.command("set", examples=SETTING)
@with_entity
@click.option("--produce", type=Rate(), metavar="BYTES", help="Bytes that it may send in a second: 1MiB.")
@click.option("--fetch", type=Rate(), metavar="BYTES", help="Bytes that it may read in a second.")
@click.option("--request", type=Percent(), metavar="PERCENT", help="Time of the broker that its requests may take.")
@click.option("--mutation", type=Percent(), metavar="NUMBER", help="Partitions that it may create or delete in one.")
@click.option("--connection", type=Percent(), metavar="NUMBER", help="Connections in a second; of --ip.")
@click.option("--dry-run", is_flag=True, help="Only check it.")
@on_cluster
@with_output
def set_quotas(cluster: Cluster, output: str, names: dict[str, str], dry_run: bool, **given: float | None) -> int:
    """Sets quotas of a user, of a client id, of both together, or of an address, and shows them. Each broker applies
    them separately.
    """
    quotas = {KEYS[name]: value for name, value in given.items() if value is not None}
    if not quotas:
        raise click.UsageError(f"which quota? There are {', '.join(f'--{name}' for name in KEYS)}")
    check(names, [name for name, value in given.items() if value is not None])
    who = entity(names)
    with cluster.admin() as admin:
        if code := alter(admin, who, quotas, dry_run):
            return code
    show_quotas(output, {who: quotas})
    if dry_run:
        complain("nothing was changed: without --dry-run they are set")
    return 0


@quota.command()
@with_entity
@click.argument("quotas", nargs=-1, type=click.Choice(list(KEYS)), metavar="[QUOTA]…")
@at_once
@on_cluster
@with_output
def unset(cluster: Cluster, output: str, names: dict[str, str], quotas: tuple[str, ...], dry_run: bool) -> int:
    """Takes quotas away: these (produce, fetch, request, mutation, connection), or all of the user or client."""
    check(names, quotas)
    who = entity(names)
    with cluster.admin() as admin:
        there = admin.describe_client_quotas(components(names), strict=True).get(who, {})
        wanted = [KEYS[name] for name in quotas]
        gone = {key: value for key, value in there.items() if not wanted or key in wanted}
        code = alter(admin, who, dict.fromkeys(gone), dry_run) if gone else 0
    if not code:
        show_quotas(output, {who: gone} if gone else {})
    if dry_run:
        nothing_was_changed()
    return code


def check(names: Mapping[str, str], quotas: list[str] | tuple[str, ...]) -> None:
    """Raises UsageError if the names have no entity, or a quota does not fit the entity."""
    if not names:
        raise click.UsageError("whose? --user, --client, --ip, or one of the defaults is missing")
    for name in quotas:
        if (name in OF_IP) != ("ip" in names):
            whose = "--ip" if name in OF_IP else "--user and --client"
            raise click.UsageError(f"{name} is a quota of {whose}")


def entity(names: Mapping[str, str]) -> ClientQuotaEntity:
    from pyclient.admin import ClientQuotaEntity

    return ClientQuotaEntity(names.get("user"), names.get("client"), names.get("ip"))


def components(names: Mapping[str, str]) -> list[ClientQuotaFilterComponent]:
    from pyclient.admin import ClientQuotaFilterComponent

    kinds = {"client": "client-id"}
    return [ClientQuotaFilterComponent(kinds.get(kind, kind), name) for kind, name in names.items()]


def alter(admin: Admin, who: ClientQuotaEntity, quotas: Mapping[str, float | None], dry_run: bool) -> int:
    done = admin.alter_client_quotas({who: quotas}, validate_only=dry_run, check=False)
    return failures("quotas of", done.errors)


def show_quotas(output: str, found: Mapping[ClientQuotaEntity, Mapping[str, float]]) -> None:
    given = list(lines(found))
    shown = [(*map(shown_name, who), key, text(key, value)) for who, key, value in given]
    documents = [dict(zip(COLUMNS, (*map(shown_name, who), key, value), strict=True)) for who, key, value in given]
    show(output, COLUMNS, shown, documents=documents, none="no quotas")


def shown_name(name: str | None) -> str | None:
    return DEFAULT if name == "" else name


def lines(
    found: Mapping[ClientQuotaEntity, Mapping[str, float]],
) -> Iterator[tuple[ClientQuotaEntity, str, float]]:
    """Yields each quota in order: defaults come before names."""
    for who in sorted(found, key=lambda each: [("" if name is None else f"1{name}") for name in each]):
        for key, value in sorted(found[who].items()):
            yield who, key, value


def text(key: str, value: float) -> str:
    """Formats a quota: ``1MiB/s``, ``50%``."""
    if key.endswith("_byte_rate"):
        return f"{size_text(int(value)) if value.is_integer() else f'{value:g}B'}/s"
    number = f"{value:.15g}"
    return f"{number}%" if key.endswith("_percentage") else f"{number}/s"
