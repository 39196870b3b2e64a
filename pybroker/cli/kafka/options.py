"""What the scripts have in common: where the cluster is, settings of the client, properties, actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.verbs import pairs

ZOOKEEPER = "--zookeeper: Kafka took it away with 3.0: say --bootstrap-server HOST:9092"


def on_kafka(
    *, config: str | None = None, setting: str | None = None, bootstrap: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a script ``cluster`` from --bootstrap-server, --command-config and --command-property, and from the
    names that these once had: ``config`` (--producer.config), ``setting`` (--producer-property) and ``bootstrap``
    (--broker-list).
    """
    configs = ("--command-config", *filter(None, (config,)))
    settings = ("--command-property", *filter(None, (setting,)))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(*configs, "file", metavar="FILE", help="Settings of the client, as a .properties file.")
        @click.option(*settings, "more", multiple=True, metavar="key=value", help="A setting of the client.")
        @click.option("--zookeeper", hidden=True)
        @on_cluster
        @functools.wraps(function)
        def call(
            cluster: Cluster, file: str | None, more: tuple[str, ...], zookeeper: str | None, **options: Any
        ) -> Any:
            if zookeeper is not None:
                raise click.UsageError(ZOOKEEPER)
            known = {**properties(file, more, settings[-1]), **cluster.settings}
            return function(cluster=found(cluster, known, options.pop("older_bootstrap", None)), **options)

        if bootstrap is not None:
            call = click.option(bootstrap, "older_bootstrap", metavar="HOST:PORT[,…]", help="--bootstrap-server.")(call)
        return call

    return decorate


def found(cluster: Cluster, known: dict[str, str], older: str | None) -> Cluster:
    """The cluster with these settings, one of which may say where it is."""
    configured = known.pop("bootstrap.servers", None)
    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        return Cluster(cluster.bootstrap, known)
    return Cluster(older or configured or cluster.bootstrap, known)


def properties(file: str | None, pairs_given: tuple[str, ...], option: str) -> dict[str, str]:
    """The properties of a file, and those given one by one, which count more. Raises UsageError."""
    found: dict[str, str] = {}
    if file is not None:
        from pybroker.config.key import ConfigError
        from pybroker.config.sources import from_file

        try:
            found = {name: each.text for name, each in from_file(file).items()}
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
    return {**found, **pairs(pairs_given, option)}


def is_true(known: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A property that is true or false."""
    return known.get(name, str(default)).strip().lower() == "true"


def only(actions: tuple[str, ...], known: tuple[str, ...]) -> str:
    """The one action that was asked for. Raises UsageError."""
    if len(actions) != 1:
        raise click.UsageError(f"exactly one of {', '.join('--' + each for each in known)}")
    return actions[0]
