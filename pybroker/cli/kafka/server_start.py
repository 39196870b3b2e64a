"""``pybroker kafka-server-start``: takes the options of kafka-server-start.sh."""

from __future__ import annotations

import os

import click


@click.command("kafka-server-start")
@click.argument("file", metavar="FILE.properties")
@click.option("--override", "settings", multiple=True, metavar="key=value", help="A setting instead of the file's.")
@click.option("-daemon", is_flag=True, hidden=True)
def server_start(file: str, settings: tuple[str, ...], daemon: bool) -> int:
    """kafka-server-start.sh: runs a broker with the settings of a file until SIGTERM or SIGINT.

    The storage need not be formatted: the start formats new storage.
    """
    if daemon:
        raise click.UsageError("-daemon is not supported: run the broker by systemd, or by nohup … &")
    from pybroker.process.diagnostics import level_of
    from pybroker.process.start_options import StartOptions
    from pybroker.process.supervisor import run

    return run(StartOptions(settings=settings, file=file, log_level=level_of(os.environ)))
