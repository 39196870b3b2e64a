"""``kafka-configs --entity-type users|clients|ips``: quotas, and passwords of users, in the words of Kafka's script."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, failures
from pybroker.cli.kafka.common import scram_users

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import AlterConfigOp, ClientQuotaEntity

USERS, CLIENTS, IPS = "users", "clients", "ips"
TYPES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
"""Kafka's names of types in requests, by the names in its script."""
NOUNS: Final = {"user": "user-principal"}
"""The name by which the script shows a type, if it differs."""
RATES: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
KEYS: Final = {USERS: RATES, CLIENTS: RATES, IPS: ("connection_creation_rate",)}
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e7
"""The range of numbers that Java shows without an exponent."""

Place = tuple[str, str | None]
"""An entity's type and name: an empty name for the default entity, None for all of the type."""


def check(places: Sequence[Place]) -> None:
    """Raises UsageError for entity types that cannot be combined."""
    types = [kind for kind, _ in places]
    if len(set(types)) < len(types):
        raise click.UsageError(f"Duplicate entity type(s) specified: {','.join(types)}")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise click.UsageError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")


def describe(admin: Admin, places: Sequence[Place]) -> int:
    """Prints the quotas of the given entities and, if only users are asked for, their SCRAM mechanisms."""
    from pyclient.errors import UnsupportedByBroker

    has_passwords = len(places) == 1 and places[0][0] == USERS and places[0][1] != ""
    try:
        there = found(admin, places)
    except UnsupportedByBroker:
        if not has_passwords:
            raise
        there = {}
    for who, values in sorted(there.items(), key=lambda item: shown(item[0])):
        told = ", ".join(f"{key}={java_double(value)}" for key, value in sorted(values.items()))
        write(f"Quota configs for {shown(who)} are {told}\n")
    return scram_users.describe(admin, places[0][1]) if has_passwords else 0


def found(admin: Admin, places: Sequence[Place]) -> dict[ClientQuotaEntity, dict[str, float]]:
    from pyclient.admin import ClientQuotaFilterComponent

    wanted = [ClientQuotaFilterComponent(TYPES[kind], name) for kind, name in places]
    return admin.describe_client_quotas(wanted, strict=True)


def shown(who: ClientQuotaEntity) -> str:
    pairs = ((NOUNS.get(kind, kind), name) for kind, name in who.names.items())
    return ", ".join(f"{noun} '{name}'" if name else f"the default {noun}" for noun, name in pairs)


def java_double(value: float) -> str:
    """Formats a double as Java does: ``1024.0``, ``1.5E7``."""
    if value == 0 or PLAIN_FROM <= abs(value) < PLAIN_BELOW or not math.isfinite(value):
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    whole, _, part = digits.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    figures = (whole + part).rstrip("0")
    if whole == "0":  # such as 0.0005
        figures, power = part.lstrip("0"), -len(part) + len(part.lstrip("0")) - 1
    return f"{figures[0]}.{figures[1:] or '0'}E{power}"


def alteration(places: Sequence[Place], ops: Sequence[AlterConfigOp]) -> Callable[[Admin], int]:
    """Returns a function that sets and removes quotas, or a user's passwords. Raises UsageError."""
    kind, name = places[0]
    is_user = len(places) == 1 and kind == USERS
    known = (*KEYS[kind], *(scram_users.MECHANISMS if is_user else ()))
    removed = [op.name for op in ops if op.value is None]
    for what, some in (("added", [op.name for op in ops if op.value is not None]), ("deleted", removed)):
        if wrong := [key for key in some if key not in known]:
            which = "quota and SCRAM credential" if is_user else "connection quota" if kind == IPS else "quota"
            told = f"Only {which} configs can be {what} for '{kind}' using --bootstrap-server."
            raise click.UsageError(f"{told} Unexpected config names: {', '.join(wrong)}")
    passwords = [op for op in ops if op.name in scram_users.MECHANISMS]
    if passwords and len(passwords) < len(ops):
        raise click.UsageError(f"Cannot alter both quota and SCRAM credential configs simultaneously for '{kind}'")
    if passwords:
        return partial(scram_users.alter, user=name or "", wanted=scram_users.alterations(name or "", ops))
    quotas = {op.name: None if op.value is None else number(op.name, op.value) for op in ops}
    return partial(alter, places=places, quotas=quotas)


def alter(admin: Admin, places: Sequence[Place], quotas: Mapping[str, float | None]) -> int:
    """Sets and removes quotas. Raises Failure if a quota to remove does not exist."""
    who = entity(dict(places))
    removed = [key for key, value in quotas.items() if value is None]
    there = found(admin, places).get(who, {}) if removed else {}
    if missing := [key for key in removed if key not in there]:
        raise Failure(f"Invalid config(s): {','.join(missing)}: {shown(who)} has none")
    done = admin.alter_client_quotas({who: quotas}, check=False)
    if done.errors:
        return failures("quotas of", {shown(each): error for each, error in done.errors.items()})
    kind, name = places[0]
    if name:
        write(f"Completed updating config for {kind.removesuffix('s')} {name}.\n")
    else:
        write(f"Completed updating default config for {kind} in the cluster.\n")
    return 0


def entity(names: Mapping[str, str | None]) -> ClientQuotaEntity:
    from pyclient.admin import ClientQuotaEntity

    return ClientQuotaEntity(names.get(USERS), names.get(CLIENTS), names.get(IPS))


def number(key: str, value: str) -> float:
    """Parses a number. Raises UsageError."""
    try:
        return float(value)
    except ValueError:
        raise click.UsageError(f"Cannot parse quota configuration value for {key}: {value}") from None
