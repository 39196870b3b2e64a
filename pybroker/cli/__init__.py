"""The verbs of the ``pybroker`` command, a file or a folder for each. No verb means ``start``.

Exit codes: 0 done, 1 failed, 2 misused, and those of signals (``ending``); one line on stderr says what was wrong. A
verb's module is imported only when the verb is used, so ``--help`` takes no longer than click itself.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from pybroker.cli.common import ending
from pybroker.cli.common.verbs import Lazy, Place, suggestion
from pybroker.version import version

PLACES = {
    "start": Place("pybroker.cli.start", "start", "Run a broker until SIGTERM or SIGINT."),
    "demo": Place("pybroker.cli.demo", "demo", "See it work: broker, producer, group, transactions; ten seconds."),
    "topic": Place("pybroker.cli.topic", "topic", "List, describe, create, alter, delete, trim; offsets."),
    "produce": Place("pybroker.cli.produce", "produce", "Send lines of stdin or of files to a topic."),
    "consume": Place("pybroker.cli.consume", "consume", "Show the records of topics."),
    "group": Place("pybroker.cli.group", "group", "List, describe, reset, delete consumer groups."),
    "config": Place("pybroker.cli.config", "config", "Get, set, unset keys of topics, brokers, groups."),
    "partition": Place("pybroker.cli.partition", "partition", "List under-replicated ones, elect leaders, reassign."),
    "cluster": Place("pybroker.cli.cluster.command", "cluster", "Describe the brokers, check the cluster, restart it."),
    "txn": Place("pybroker.cli.txn", "txn", "List, describe, abort transactions."),
    "log": Place("pybroker.cli.log.command", "log", "Dump and verify log files, without a broker; log dirs."),
    "doctor": Place("pybroker.cli.doctor.command", "doctor", "Find out why a client cannot reach a broker."),
    "user": Place("pybroker.cli.user", "user", "List, create, delete users of SCRAM; change passwords."),
    "acl": Place("pybroker.cli.acl", "acl", "List, create, delete ACLs: which user may do what."),
    "quota": Place("pybroker.cli.quota", "quota", "List, set, unset quotas of users, clients and addresses."),
    "token": Place("pybroker.cli.token", "token", "Create, renew, expire, list delegation tokens."),
    "tls": Place("pybroker.cli.tls", "tls", "Create certificates for a broker and its clients."),
    "bench": Place("pybroker.cli.bench.command", "bench", "Measure produce, consume, end to end."),
    "api-versions": Place("pybroker.cli.api_versions", "api_versions", "Show the APIs and versions of a broker."),
    "profiles": Place("pybroker.cli.common.profiles", "profiles", "Clusters by name, for -P."),
    "completion": Place("pybroker.cli.completion", "completion", "Completion for bash, zsh, fish."),
}

SCRIPTS = {
    f"kafka-{name}": Place(f"pybroker.cli.kafka.{name.replace('-', '_')}", name.replace("-", "_"), summary)
    for name, summary in (
        ("server-start", "Run a broker."),
        ("topics", "Create, list, describe, alter, delete topics."),
        ("console-producer", "Send the lines of stdin."),
        ("console-consumer", "Show the records of a topic."),
        ("consumer-groups", "List, describe, reset, delete consumer groups."),
        ("configs", "Describe and alter keys, passwords, quotas."),
        ("acls", "List, add, remove ACLs."),
        ("delegation-tokens", "Create, renew, expire, show delegation tokens."),
        ("get-offsets", "First and last offsets of partitions."),
        ("log-dirs", "Show what log dirs contain."),
        ("delete-records", "Delete the records before an offset."),
        ("leader-election", "Elect leaders."),
        ("reassign-partitions", "Move partitions to other brokers."),
        ("producer-perf-test", "Send records, show rate and latencies."),
        ("consumer-perf-test", "Read records, show the rates."),
        ("broker-api-versions", "Show the APIs and versions of brokers."),
        ("dump-log", "Show the files of a log, without a broker."),
    )
}
"""Kafka's own scripts, by their names without .sh."""


STOPPING = "Ctrl-C, or SIGTERM to its process, stops a broker (docs/operations.md)"
NO_ZOOKEEPER = "a single broker needs no ZooKeeper: `pybroker start`"
ELSEWHERE = {
    "stop": STOPPING,
    "kafka-server-stop": STOPPING,
    "restart": "`pybroker cluster restart` restarts the brokers of a supervisor one by one",
    "status": "`pybroker cluster health` shows what is not as it should be",
    "help": "`pybroker --help` lists the verbs",
    "version": "`pybroker --version` shows it",
    "kafka-transactions": "`pybroker txn` lists, describes and aborts transactions",
    "kafka-storage": "there is nothing to format: `pybroker start` makes its data folder",
    "zookeeper-server-start": NO_ZOOKEEPER,
}
"""Words that somebody might take for verbs, each with what to do instead."""

CLUSTER_OPTIONS = ("-b", "-P", "-X", "--bootstrap-server", "--profile", "--command-config")


def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"pybroker {version()}")
        context.exit()


class DefaultToStart(Lazy):
    """Takes a file, options or nothing as arguments of ``start``, and a script of Kafka's with or without ``.sh``."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with ending.closed_pipe():
            return super().make_context(*args, **options)

    def invoke(self, context: click.Context) -> Any:
        with ending.closed_pipe():
            return super().invoke(context)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        own = {name for parameter in self.get_params(context) for name in parameter.opts}
        if context.resilient_parsing:  # a shell asks what could come next
            return super().parse_args(context, args)
        args = cluster_last(args)
        if not args or (self.place(args[0]) is None and args[0] not in own):
            if args and not is_for_start(args[0]):
                known = (*self.places, *self.scripts)
                advice = ELSEWHERE.get(args[0].removesuffix(".sh")) or suggestion(args[0], known)
                raise click.UsageError(f"{args[0]!r} is neither a command nor a file: {advice}", context)
            args = ["start", *args]
        return super().parse_args(context, args)


def cluster_last(args: list[str]) -> list[str]:
    """Moves options that name the cluster to the end: ``-b host:port topic list`` becomes ``topic list -b host:port``.
    """
    words = 0
    while words < len(args) and args[words].startswith(CLUSTER_OPTIONS):
        words += 1 if args[words] not in CLUSTER_OPTIONS else 2
    if not 0 < words < len(args) or args[words].startswith("-"):
        return args
    verb = args[words:]
    end = verb.index("--") if "--" in verb else len(verb)
    return [*verb[:end], *args[:words], *verb[end:]]


def is_for_start(word: str) -> bool:
    """Says whether ``word`` is an option, or a file that exists or is clearly meant as one."""
    return word.startswith("-") or word.endswith(".properties") or os.sep in word or os.path.exists(word)


@click.group(
    cls=DefaultToStart, places=PLACES, scripts=SCRIPTS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and exit.",
)
def pybroker() -> None:
    """Kafka that you can pip install. Without a verb: start (see `pybroker start --help`)."""


def main(arguments: list[str]) -> int:
    """Runs a verb, and returns its exit code. ``ending`` lists the codes."""
    ending.open_streams()
    try:
        code = int(pybroker.main(arguments, prog_name="pybroker", standalone_mode=False) or 0)
        sys.stdout.flush()
    except ModuleNotFoundError:
        raise  # the installation's fault, not the verb's
    except BaseException as error:
        return ending.code_of(error)
    return code
