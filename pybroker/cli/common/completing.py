"""The words that a shell completes on Tab: topics, groups, brokers and keys of the cluster that the line names.

The shell waits meanwhile. If the cluster does not answer within ``WAIT_S``, there are no suggestions, and no error.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from pybroker.cli.common.verbs import BOOTSTRAP

if TYPE_CHECKING:
    from pyclient import Admin

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
WAIT_S = 2.0


def from_cluster(names: Callable[[Admin], Iterable[str]]) -> Complete:
    """Completes with names of the cluster that the line does not have yet."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        given = context.params.get(parameter.name or "") or ()
        present = {given} if isinstance(given, str) else set(given)
        fitting = (name for name in ask(context, names) if name.startswith(incomplete))
        return [CompletionItem(name) for name in fitting if name not in present]

    return complete


def ask(context: click.Context, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    """Returns the names, sorted; none if the cluster cannot be asked."""
    from pyclient import Admin
    from pyclient.errors import KafkaError

    logging.getLogger("pyclient").addHandler(logging.NullHandler())
    with contextlib.suppress(KafkaError, OSError, click.UsageError):
        address, settings = place_of(context)
        with Admin(address, settings, default_api_timeout_ms=round(WAIT_S * 1000)) as admin:
            admin.connect(WAIT_S)
            return sorted(names(admin))
    return []


def place_of(context: click.Context) -> tuple[str, dict[str, str]]:
    """Returns the address from the incomplete line or the environment, and the client's settings. Raises UsageError."""
    from pybroker.cli.common.cluster_options import properties
    from pybroker.cli.common.profiles import load

    params = context.params
    known = properties(params.get("command_config") or params.get("file"), params.get("settings") or (), "-X")
    name = params.get("profile") or os.environ.get("PYBROKER_PROFILE")
    if name:
        known = {**known, **load().get(name, {})}
    configured = known.pop(BOOTSTRAP, None)
    given: str = params.get("bootstrap") or os.environ.get("PYBROKER_BOOTSTRAP") or "localhost:9092"
    is_said = context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    return given if is_said else configured or given, known


def topics(admin: Admin) -> Iterable[str]:
    return admin.list_topics()


def groups(admin: Admin) -> Iterable[str]:
    return (each.group_id for each in admin.list_groups())


def transactional_ids(admin: Admin) -> Iterable[str]:
    return (each.transactional_id for each in admin.list_transactions())


def brokers(admin: Admin) -> Iterable[str]:
    return (str(each.id) for each in admin.describe_cluster().brokers)


def named(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes a name of the kind that the word before it names: ``config get topic …``."""
    known = {"topic": topics, "group": groups, "broker": brokers, "broker-logger": brokers}
    kind = context.params.get("kind")
    return from_cluster(known[kind])(context, parameter, incomplete) if kind in known else []


NAME: Complete = named
TOPIC: Complete = from_cluster(topics)
GROUP: Complete = from_cluster(groups)
TRANSACTIONAL_ID: Complete = from_cluster(transactional_ids)
