"""What a shell offers behind Tab: topics, groups, brokers, keys, from the cluster that the line names.

A shell waits for us: a cluster that does not answer within ``WAIT_S`` offers nothing, without a word.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pyclient import Admin

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
WAIT_S = 2.0


def from_cluster(names: Callable[[Admin], Iterable[str]]) -> Complete:
    """Completes with what the cluster has, without what the line has already."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        given = context.params.get(parameter.name or "") or ()
        present = {given} if isinstance(given, str) else set(given)
        fitting = (name for name in ask(context, names) if name.startswith(incomplete))
        return [CompletionItem(name) for name in fitting if name not in present]

    return complete


def ask(context: click.Context, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    """Sorted; nothing where the cluster cannot be asked."""
    from pyclient import Admin
    from pyclient.errors import KafkaError

    logging.getLogger("pyclient").addHandler(logging.NullHandler())
    address = bootstrap_of(context)
    with contextlib.suppress(KafkaError, OSError), Admin(address, default_api_timeout_ms=round(WAIT_S * 1000)) as admin:
        admin.connect(WAIT_S)
        return sorted(names(admin))
    return []


def bootstrap_of(context: click.Context) -> str:
    """The address that the line so far, or the environment, names."""
    name = context.params.get("profile") or os.environ.get("PYBROKER_PROFILE")
    given: str | None = context.params.get("bootstrap")
    if name and not given:
        from pybroker.cli.common.profiles import load
        from pybroker.cli.common.verbs import BOOTSTRAP

        given = load().get(name, {}).get(BOOTSTRAP)
    return given or os.environ.get("PYBROKER_BOOTSTRAP") or "localhost:9092"


def topics(admin: Admin) -> Iterable[str]:
    return admin.list_topics()


def groups(admin: Admin) -> Iterable[str]:
    return (each.group_id for each in admin.list_groups())


def transactional_ids(admin: Admin) -> Iterable[str]:
    return (each.transactional_id for each in admin.list_transactions())


def brokers(admin: Admin) -> Iterable[str]:
    return (str(each.id) for each in admin.describe_cluster().brokers)


def named(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The name of a thing of the kind that stands before it: ``config get topic …``."""
    known = {"topic": topics, "group": groups, "broker": brokers, "broker-logger": brokers}
    kind = context.params.get("kind")
    return from_cluster(known[kind])(context, parameter, incomplete) if kind in known else []


NAME: Complete = named
TOPIC: Complete = from_cluster(topics)
GROUP: Complete = from_cluster(groups)
TRANSACTIONAL_ID: Complete = from_cluster(transactional_ids)
