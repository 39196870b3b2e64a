"""``pybroker start``: runs a broker in the foreground."""

from __future__ import annotations

import os

import click

from pybroker.process.limits import MOST_PROCESSES

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("file", required=False, metavar="[FILE.properties]")
@click.option("--data-dir", metavar="DIR", help="The data folder [the user's].")
@click.option("--host", help="Address to listen on [127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port to listen on; 0: a free one [9092].")
@click.option("--node-id", type=click.IntRange(0), metavar="N", help="Number of the (first) broker [1].")
@click.option("--processes", type=click.IntRange(1, MOST_PROCESSES), default=1, help="Number of brokers [1].")
@click.option("--zookeeper", metavar="HOST:PORT[,…][/chroot]", help="Coordination, for several machines.")
@click.option("--set", "settings", multiple=True, metavar="key=value", help="A broker setting.")
@click.option(
    "--add-scram", multiple=True, metavar="MECHANISM=[name=…,password=…]",
    help="A user who shall have a password, if there is none; also lines of $PYBROKER_ADD_SCRAM.",
)
@click.option("--set-scram", is_flag=True, hidden=True)
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="[info]")
@click.option("--audit-log", metavar="FILE", help="Where denials are told [with the rest, on stderr].")
@click.option("--restart-delay", type=click.FloatRange(0), default=1, help="Seconds until a dead broker restarts [1].")
@click.option("--join", is_flag=True, help="Join the brokers of this --data-dir, with another --node-id.")
@click.option("--add-acl", multiple=True, hidden=True)
@click.option("--embedded", is_flag=True, hidden=True)
@click.option("--temporary", is_flag=True, hidden=True)
@click.option("--base", hidden=True)
@click.option("--member", is_flag=True, hidden=True)
def start(settings: tuple[str, ...], add_scram: tuple[str, ...], **options: object) -> int:
    """Runs a broker until SIGTERM or SIGINT.

    Settings are Kafka's; --set also takes times and sizes with a unit (log.retention.ms=7d). Precedence: --set, the
    environment (KAFKA_LOG_RETENTION_HOURS), FILE.properties, with --join the settings of the running brokers, default.
    Without --log-level, KAFKA_LOG4J_ROOT_LOGLEVEL says what is logged.
    """
    from pybroker.cli.common.verbs import in_numbers
    from pybroker.process.diagnostics import level_of
    from pybroker.process.secret_settings import added_scram
    from pybroker.process.start_options import StartOptions
    from pybroker.process.supervisor import run  # costs 0.5 s, which --help need not

    options["log_level"] = options["log_level"] or level_of(os.environ)
    users = (*add_scram, *added_scram(os.environ))
    settings = tuple(in_numbers(settings, "" if options["embedded"] else "--set"))
    return run(StartOptions(settings=settings, add_scram=users, **options))  # type: ignore[arg-type]
