"""Options that the scripts share: the cluster, client settings, properties, actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from pybroker.cli.common.cluster_options import Cluster, by_words, configured, properties

ZOOKEEPER = "--zookeeper: Kafka took it away with 3.0: say --bootstrap-server HOST:9092"


def on_kafka(
    *, config: str | None = None, setting: str | None = None, bootstrap: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a script ``cluster`` from --bootstrap-server, --command-config and --command-property, and from the older
    names of these options: ``config`` (--producer.config), ``setting`` (--producer-property) and ``bootstrap``
    (--broker-list).
    """
    configs = ("--command-config", *filter(None, (config,)))
    settings = ("--command-property", *filter(None, (setting,)))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(*configs, "file", metavar="FILE", help="Settings of the client, as a .properties file.")
        @click.option(*settings, "more", multiple=True, metavar="key=value", help="A setting of the client.")
        @click.option("--zookeeper", hidden=True)
        @by_words
        @functools.wraps(function)
        def call(
            cluster: Cluster, file: str | None, more: tuple[str, ...], zookeeper: str | None, **options: Any
        ) -> Any:
            if zookeeper is not None:
                raise click.UsageError(ZOOKEEPER)
            known = {**properties(file, more, settings[-1]), **cluster.settings}
            return function(cluster=configured(cluster, known, options.pop("older_bootstrap", None)), **options)

        if bootstrap is not None:
            call = click.option(bootstrap, "older_bootstrap", metavar="HOST:PORT[,…]", help="--bootstrap-server.")(call)
        return call

    return decorate


def is_true(known: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Returns the value of a property that is true or false."""
    return known.get(name, str(default)).strip().lower() == "true"


def only(actions: tuple[str, ...], known: tuple[str, ...]) -> str:
    """Returns the only action that the user asked for. Raises UsageError."""
    if len(actions) != 1:
        raise click.UsageError(f"use exactly one of {', '.join('--' + each for each in known)}")
    return actions[0]
