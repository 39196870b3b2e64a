"""The options by which a verb finds its cluster, and the clients that they make."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from pybroker.cli.common.verbs import BOOTSTRAP, pairs
from pybroker.cli.common.verbs import settings as in_units
from pybroker.cli.common.wrong_addresses import told
from pyclient.keywords import with_dots

if TYPE_CHECKING:
    from pyclient import Admin, Consumer, Producer

CONNECT_S = 10.0
"""How long to try to connect. This is short, because a person waits for the command."""
QUICKLY_S = 1.0


class Cluster(NamedTuple):
    """The cluster to connect to; ``settings`` are those of the client, by Kafka's keys."""

    bootstrap: str
    settings: Mapping[str, str]

    @contextlib.contextmanager
    def admin(self) -> Iterator[Admin]:
        """Yields a connected admin client. Raises ConnectionFailed."""
        from pyclient import Admin

        with Admin(self.bootstrap, self.settings) as admin:
            self._connect(admin)
            with told(self.bootstrap, self.settings):
                yield admin

    @contextlib.contextmanager
    def consumer(self, **own: Any) -> Iterator[Consumer]:
        """Yields a connected consumer. The user's settings override ``own``. Raises ConnectionFailed."""
        from pyclient import Consumer

        with Consumer(self.bootstrap, merged(own, self.settings)) as consumer:
            self._connect(consumer)
            with told(self.bootstrap, self.settings):
                yield consumer

    @contextlib.contextmanager
    def producer(self, **own: Any) -> Iterator[Producer]:
        """Yields a connected producer. The user's settings override ``own``. Raises ConnectionFailed."""
        from pyclient import Producer

        with Producer(self.bootstrap, config=merged(own, self.settings)) as producer:
            self._connect(producer)
            with told(self.bootstrap, self.settings):
                yield producer

    def _connect(self, client: Admin | Consumer | Producer) -> None:
        """Connects. Fails at once if the only address refuses the connection, TLS or SASL: waiting would not help.

        Raises ConnectionFailed.
        """
        from pyclient.errors import ConnectionFailed

        try:
            client.connect(min(QUICKLY_S, CONNECT_S))
        except ConnectionFailed as error:
            if "," not in self.bootstrap and (error.lasts or isinstance(error.cause, ConnectionRefusedError)):
                raise
            client.connect(CONNECT_S)


def merged(own: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns settings by dotted names; the user's ``settings`` override ``own``."""
    given = {name: value for name, value in own.items() if value is not None}
    return with_dots(given) | with_dots(settings)


def on_cluster(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb ``cluster`` from -b, -P, -X and --command-config; -v lets the client log."""

    @click.option("--command-config", metavar="FILE", help="Settings of the client, as a .properties file.")
    @by_words
    @functools.wraps(function)
    def call(cluster: Cluster, command_config: str | None, **options: Any) -> Any:
        known = {**properties(command_config), **cluster.settings}
        return function(cluster=configured(cluster, known), **options)

    return call


def by_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb ``cluster`` from -b, -P and -X; -v lets the client log."""

    @click.option(
        *("-b", "--bootstrap-server", "bootstrap"),
        envvar="PYBROKER_BOOTSTRAP",
        default="localhost:9092",
        metavar="HOST:PORT[,…]",
        help="Brokers to begin with [$PYBROKER_BOOTSTRAP or localhost:9092].",
    )
    @click.option(
        *("-P", "--profile"),
        envvar="PYBROKER_PROFILE",
        metavar="NAME",
        help="A cluster by name; see `pybroker profiles`.",
        shell_complete=profile_names,
    )
    @click.option("-X", "settings", multiple=True, metavar="key=value", help="A setting of the client.")
    @click.option("-v", "--verbose", is_flag=True, help="Log what the client does to stderr.")
    @functools.wraps(function)
    def call(
        bootstrap: str, profile: str | None, settings: tuple[str, ...], verbose: bool, **options: Any
    ) -> Any:
        if verbose:
            logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        else:  # an error is a single line, which the verb prints
            logging.getLogger("pyclient").addHandler(logging.NullHandler())
        return function(cluster=chosen(bootstrap, profile, in_units(settings, "-X")), **options)

    return call


def chosen(bootstrap: str, name: str | None, settings: Mapping[str, str]) -> Cluster:
    """Returns the cluster of the named profile, overridden by options of the command line. Raises UsageError."""
    if name is None:
        return Cluster(bootstrap, settings)
    from pybroker.cli.common.profiles import profile

    known = profile(name)
    is_given = click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    address = bootstrap if is_given else known.get(BOOTSTRAP, bootstrap)
    return Cluster(address, {key: value for key, value in known.items() if key != BOOTSTRAP} | dict(settings))


def properties(file: str | None, more: tuple[str, ...] = (), option: str = "") -> dict[str, str]:
    """Returns the properties of a file, overridden by those given one by one in an option. Raises UsageError."""
    found: dict[str, str] = {}
    if file is not None:
        from pybroker.config.keys.key import ConfigError
        from pybroker.config.sources import from_file

        try:
            found = {name: each.text for name, each in from_file(file).items()}
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
    return {**found, **pairs(more, option)}


def configured(cluster: Cluster, known: dict[str, str], older: str | None = None) -> Cluster:
    """Applies settings to the cluster. The settings may name its address, and so may ``older``, an option of Kafka's
    scripts; -b and -P take precedence.
    """
    address = older or known.pop(BOOTSTRAP, None)
    context = click.get_current_context()
    if context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE or context.params.get("profile"):
        address = None
    return Cluster(address or cluster.bootstrap, {key: value for key, value in known.items() if key != BOOTSTRAP})


def profile_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from pybroker.cli.common.profiles import load

    return [name for name in load() if name.startswith(incomplete)]
