"""``pybroker doctor``: finds out why a client cannot reach a broker."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.verbs import Verb

EXAMPLES = """
pybroker doctor -b kafka.example:9092
pybroker doctor --local server.properties               before a start
pybroker doctor --write -o json
"""


def is_default(option: str) -> bool:
    """Says whether neither the command line nor the environment nor a profile has the option."""
    context = click.get_current_context()
    return not context.params.get("profile") and context.get_parameter_source(option) is ParameterSource.DEFAULT


def of_a_start(file: str | None, data_dir: str | None) -> tuple[list[Path], str]:
    """Returns the folders of a start with these options, and what they are."""
    from pybroker import data_folder
    from pybroker.cli.doctor import machine, settings

    if data_dir is not None:
        return [Path(data_dir).absolute()], machine.DATA_FOLDER
    if log_dirs := settings.log_dirs(file):
        return log_dirs, machine.LOG_DIR
    return [data_folder.users_folder().absolute()], machine.DEFAULT_FOLDER


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("file", required=False, metavar="[FILE.properties]", type=click.Path(exists=True, dir_okay=False))
@click.option("--data-dir", metavar="DIR", help="The data folder to look at.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=3.0, help="Seconds for each address [3].")
@click.option("--write", is_flag=True, help="Also send and read a record, through a temporary topic.")
@click.option("--local", is_flag=True, help="Only this machine and the settings, no cluster.")
@on_cluster
@with_output
def doctor(
    cluster: Cluster, output: str, file: str | None, data_dir: str | None, timeout: float, write: bool, local: bool
) -> int:
    """Looks at this machine, at the settings of a broker, and at the way to the cluster.

    It checks names, ports and protocol, and above all whether this machine reaches the addresses that brokers
    advertise. Looks at the log dirs of brokers that answer and run here. If none answers, it looks at what a start
    would find, unless -b names another machine. Changes nothing without --write. Exit code 1 where something is an
    error.
    """
    from pybroker.cli.doctor import cluster as clusters
    from pybroker.cli.doctor import machine, settings
    from pybroker.cli.reaching import network
    from pybroker.cli.reaching.finding import ERROR, Finding

    found = [*machine.examine()]
    answers = [] if local else list(clusters.examine(cluster, timeout, write))
    is_silent = any(each.level == ERROR for each in answers)
    if local or file or data_dir or any(machine.is_here(host) for host, _ in network.addresses(cluster.bootstrap)):
        is_of_brokers = not (local or file or data_dir or is_silent)
        folders, kind = (clusters.log_dirs(cluster), machine.LOG_DIR) if is_of_brokers else of_a_start(file, data_dir)
        if is_silent and is_default("bootstrap"):
            found = [*machine.running(folders), *found]
        found += machine.of_a_broker(folders, kind)
        if not is_of_brokers or is_default("bootstrap"):
            found += settings.examine(file)
    found += answers
    documents = [each._asdict() for each in found]
    show(output, Finding._fields, found, documents=documents, names=[each.check for each in found])
    return 1 if any(each.level == ERROR for each in found) else 0
