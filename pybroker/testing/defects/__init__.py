"""Defects that were mended, planted again: for each of them a test must fail.

A test that passed before and after a mend proves nothing. So every mended defect stands here as a function that
returns patches, which bring the old behaviour back, and names the test that finds it. ``test_defects.py`` runs each
named test with its defect and expects it to fail. By hand::

    pytest --defect compaction_takes_ended_transactions_for_open pybroker/log/tests/test_compaction_rounds.py

The functions stand in a file per room (``log.py``, ``cluster.py``, …). Production code knows nothing of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

Patch = tuple[Any, str, Any]
"""Owner (a module or a class), name, value."""

VARIABLE = "PYBROKER_DEFECT"
"""Names the defect in the environment of child processes."""


class Defect(NamedTuple):
    """``patches()`` brings the defect back; ``test`` is the pytest node id, or file, that must fail then."""

    name: str
    test: str
    patches: Callable[[], list[Patch]]


DEFECTS: dict[str, Defect] = {}


def defect(test: str) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    """Registers a function that returns patches, under its name, as a defect that ``test`` must find."""

    def register(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        DEFECTS[patches.__name__] = Defect(patches.__name__, test, patches)
        return patches

    return register


def all_defects() -> dict[str, Defect]:
    """Every defect of every room, by name."""
    for module in iter_modules(__path__):
        if not module.ispkg:
            import_module(f"{__name__}.{module.name}")
    return DEFECTS


def plant(name: str) -> None:
    """Patches this process for good. Raises KeyError where no defect has that name."""
    for owner, attribute, value in all_defects()[name].patches():
        setattr(owner, attribute, value)


def plant_in_children(name: str) -> None:
    """Makes the Python processes that this one starts plant the defect at their start."""
    here = Path(__file__).parent
    paths = [str(here / "in_children"), str(here.parents[2]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ[VARIABLE] = name
