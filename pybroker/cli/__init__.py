"""The verbs of the ``pybroker`` command, a file for each. No verb means ``start``.

Exit codes: 0 done, 1 failed, 2 misused; what was misused is told in one line on stderr.
"""

from __future__ import annotations

import sys

import click

from pybroker.cli.start import start


def version() -> str:
    """The installed version."""
    from importlib.metadata import PackageNotFoundError  # costs 20 ms
    from importlib.metadata import version as version_of

    try:
        return version_of("pybroker")
    except PackageNotFoundError:
        return "unknown (not installed)"


def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"pybroker {version()}")
        context.exit()


class DefaultToStart(click.Group):
    """A group that takes an unknown first word, or none, as arguments of ``start``."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        own = {name for parameter in self.get_params(context) for name in parameter.opts}
        if not args or (args[0] not in self.commands and args[0] not in own):
            args = ["start", *args]
        return super().parse_args(context, args)


@click.group(cls=DefaultToStart, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and exit.",
)
def pybroker() -> None:
    """Kafka that one can pip install. Without a verb: start (see `pybroker start --help`)."""


pybroker.add_command(start)


def main(arguments: list[str]) -> int:
    """Runs a verb; returns the exit code."""
    try:
        return int(pybroker.main(arguments, prog_name="pybroker", standalone_mode=False) or 0)
    except click.ClickException as error:
        print(f"pybroker: {error.format_message()}", file=sys.stderr)
        return 2
    except click.exceptions.Abort:
        return 1
