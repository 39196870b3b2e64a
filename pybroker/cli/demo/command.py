"""``pybroker demo``: runs the parts of the demo one after the other, and shows the report."""

from __future__ import annotations

import click

from pybroker.cli.common.verbs import Verb
from pybroker.cli.demo.leaving import Leaving

LIMIT = 1_000_000


@click.command(cls=Verb)
@click.argument("file", required=False, metavar="[FILE]")
@click.option("-k", "--key", metavar="FIELD", help="For CSV and JSON: the field that becomes the key.")
@click.option("-n", "--limit", type=click.IntRange(1), default=LIMIT, help=f"Records at most [{LIMIT:,}].")
@click.option("--keep", is_flag=True, help="Keep the broker running afterwards, until Ctrl-C.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", help="The report [table].")
def demo(file: str | None, key: str | None, limit: int, keep: bool, output: str) -> None:
    """Shows in ten seconds what pybroker does.

    It starts a broker of its own on a free port, with a temporary folder. A producer, a group of two consumers, and a
    transactional worker that fails on the way use it. The end shows throughput, latency, and what to try next.

    FILE is streamed instead of the data set that comes with it: .csv and .jsonl by record, anything else by line;
    .gz and .xz too; - is stdin.
    """
    leaving = Leaving()
    leaving.listen()
    from pybroker.cli.demo.play import play

    play(file, key, limit, keep, output, leaving)
