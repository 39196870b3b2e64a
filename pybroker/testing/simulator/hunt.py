"""Looks for histories in which broken protocols show, over the cores of the machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from pybroker.testing.simulator.mutants import HISTORIC, MUTANTS

ALL = (*HISTORIC, *MUTANTS)


class Found(NamedTuple):
    """What has become of a broken protocol; ``seed`` -1 where no invariant has named it."""

    name: str
    seed: int
    invariant: str
    is_right: bool

    def line(self) -> str:
        """For people."""
        if self.seed < 0:
            return f"{self.name}: SURVIVED"
        return (
            f"{self.name}: {self.invariant} (seed {self.seed}){'' if self.is_right else ', which says something else'}"
        )


def find(number: int, histories: int) -> Found:
    """The first history that shows one of ``ALL``."""
    mutant = ALL[number]
    outcome = mutant.caught(chain([max(0, mutant.seed)], range(histories)))
    if outcome is None:
        return Found(mutant.name, -1, "", is_right=False)
    return Found(mutant.name, outcome.seed, outcome.invariant, outcome.invariant in mutant.named_by)


def hunt(histories: int, processes: int) -> Iterator[Found]:
    """Each of ``ALL``, in its order."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(partial(find, histories=histories), range(len(ALL)))
