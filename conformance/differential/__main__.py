"""``python -m conformance.differential``: our broker and a real Kafka side by side, thousands of sequences."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from conformance.differential import accepted
from conformance.differential.campaign import SETTINGS, Campaign, Draw, Side, grouped
from conformance.differential.duel import CALM, Duel
from conformance.differential.generate import KINDS, sequence
from conformance.differential.guarded import GuardedSide, guarded_broker, guarded_sequence
from conformance.differential.step import parse, show
from harness.servers.brokers import KINDS as BROKERS
from harness.servers.brokers import Broker
from harness.servers.guarded import GUARDED


@contextlib.contextmanager
def two_sides(left: str, right: str, *, with_acls: bool = False) -> Iterator[tuple[Side, Side]]:
    """Starts and warms both brokers."""
    side = GuardedSide if with_acls else Side
    folder = Path(tempfile.mkdtemp(prefix="differential-"))
    try:
        with (
            _broker(right, folder / "right", with_acls=with_acls) as reference,
            _broker(left, folder / "left", with_acls=with_acls) as tested,
        ):
            yield side(tested), side(reference)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _broker(kind: str, folder: Path, *, with_acls: bool) -> Broker:
    return guarded_broker(GUARDED[kind], folder) if with_acls else BROKERS[kind](folder, **SETTINGS)


@click.command()
@click.option("--sequences", default=2400, show_default=True, help="how many")
@click.option("--seed", default=1, show_default=True)
@click.option("--start", default=0, help="number of the first sequence")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="only this kind; may be repeated")
@click.option("--left", default="ours", type=click.Choice(sorted(BROKERS)), help="what is tested")
@click.option("--acls", "with_acls", is_flag=True, help="with users and ACLs; one sequence at once")
@click.option("--workers", default=3, show_default=True, help="sequences at once")
@click.option("--most", default=100, show_default=True, help="findings after which it stops")
@click.option("--coverage", is_flag=True, help="show what each verb was answered, by error code")
@click.option("--steps", "file", type=click.Path(path_type=Path), help="run the sequence of this file, telling all")
def main(
    sequences: int,
    seed: int,
    start: int,
    kinds: tuple[str, ...],
    left: str,
    with_acls: bool,
    workers: int,
    most: int,
    coverage: bool,
    file: Path | None,
) -> None:
    """Compares our broker with a real Kafka; exits with 1 if there is a difference that is not in the table."""
    draw = guarded_sequence if with_acls else sequence
    with two_sides(left, "kafka", with_acls=with_acls) as sides:
        if file is not None:
            tell(sides, file, draw)
            return
        campaign = Campaign(*sides, accepted.load(), draw)
        workers = 1 if with_acls else workers  # ACLs belong to the whole broker
        tally = campaign.run(seed, range(start, start + sequences), kinds or KINDS, workers=workers, most=most)
    for first, findings in grouped(tally.findings):
        click.echo(f"--- {len(findings)}x {first}\n{findings[0]}")
    click.echo("".join(f"fleeting: {one}\n" for one in tally.fleeting), nl=False)
    if coverage:
        click.echo(tally.coverage())
    click.echo(str(tally))
    sys.exit(1 if tally.findings else 0)


def tell(sides: tuple[Side, Side], file: Path, draw: Draw) -> None:
    """Runs one sequence (a file of steps, or ``seed:number:kind,kind``) slowly and shows every answer."""
    if file.exists():
        steps = parse(file.read_text())
    else:
        seed, number, *kinds = str(file).split(":")
        steps = draw(int(seed), int(number), kinds[0].split(",") if kinds else KINDS)[1]
    click.echo(show(steps))
    prefix = f"told-{int(time.time())}-"
    left, right = (side.world(prefix, own_topic=True) for side in sides)
    duel = Duel(left, right, CALM)
    found = duel.run(steps)
    click.echo("\n".join(duel.trace))
    click.echo("no difference" if found is None else "\n".join(str(one) for one in found.differences))


if __name__ == "__main__":
    main()
