"""Finds histories in which broken protocols show, on all cores of the machine."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from proofs.defects import Defect, all_defects
from proofs.defects.suites import HISTORIES
from proofs.simulator.machines.environment import patched
from proofs.simulator.shapes import SHAPES


class Found(NamedTuple):
    """The result for a broken protocol. ``text`` is "" if no invariant reported it."""

    defect: Defect
    text: str

    @property
    def is_right(self) -> bool:
        """True if the violated invariant is one that this defect breaks."""
        return bool(re.search(self.defect.says, self.text))

    def line(self) -> str:
        """One line for people."""
        return f"{self.defect.name}: {self.text or 'SURVIVED'}{'' if self.is_right else ', which is wrong'}"


def find(defect: Defect, histories: int) -> Found:
    """Runs histories of the defect's shape. Returns the first one that shows the defect."""
    with patched(defect.patches()):
        return Found(defect, SHAPES[defect.parameter].failure(histories))


def hunt(histories: int, processes: int) -> Iterator[Found]:
    """Yields the result for every defect that histories have to find."""
    defects = [defect for defect in all_defects() if defect.test.startswith(HISTORIES)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(partial(find, histories=histories), defects)
