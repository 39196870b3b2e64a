"""Simulates clusters, one history for each seed.

    python -m proofs.simulator --seeds 0-1000000 [--processes N] [--report FILE]
    python -m proofs.simulator --seeds 17 --trace     one history, event by event
    python -m proofs.simulator --seeds 0-1000000 --mutants 3000     before that, the broken protocols
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from proofs.simulator.hunt import hunt
from proofs.simulator.report import simulate
from proofs.simulator.settings import ROOMS
from proofs.simulator.world import drawn, run


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if every invariant has held."""
    parser = argparse.ArgumentParser(prog="python -m proofs.simulator", description="Simulated clusters.")
    parser.add_argument("--seeds", default="0-2000", help="one seed, or A-B (B not included)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", type=Path, help="the file for the report, as JSON")
    parser.add_argument("--trace", action="store_true", help="print what happens in each history")
    parser.add_argument("--room", choices=["", *ROOMS], help="give every history the faults of that room, or of none")
    parser.add_argument("--mutants", type=int, metavar="N", help="first: each broken protocol is found in N histories")
    options = parser.parse_args(arguments)
    first, _, end = options.seeds.partition("-")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    if options.trace:
        return _trace(seeds, options.room)
    survivors = _find_out(options.mutants, options.processes) if options.mutants else []
    report = simulate(seeds.start, seeds.stop, options.processes, lambda text: print(text, flush=True), options.room)
    if options.report:
        report.write(options.report)
    return 1 if report.violations or survivors else 0


def _find_out(histories: int, processes: int) -> list[str]:
    """Prints which invariant reports each broken protocol, and returns those that none reports."""
    survivors = []
    for found in hunt(histories, processes):
        print(found.line(), flush=True)
        if not found.is_right:
            survivors.append(found.defect.name)
    return survivors


def _trace(seeds: range, room: str | None) -> int:
    failed = False
    for seed in seeds:
        outcome = run(seed, drawn(seed, room), traced=True)
        print(*outcome.trace, sep="\n")
        print(f"seed {seed}: {outcome.text or 'every invariant has held'}")
        failed = failed or bool(outcome.invariant)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
