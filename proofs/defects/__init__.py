"""Planted defects: fixed ones, and ones that break a promise. For each of them a test must fail.

A test that passed before and after a fix proves nothing. So every fixed defect is here as a function that returns
patches, which restore the old behaviour, and names the test that finds it. A checker that finds nothing proves nothing
either. So promises are broken here as well, and ``suites`` tells which check finds that. ``test_defects.py`` runs each
named test with its defect and expects it to fail. By hand::

    pytest --defect compaction_takes_ended_transactions_for_open pybroker/log/compaction/tests/test_compaction_rounds.py

There is a file per room (``net.py``, ``logs/log.py``, …). Production code knows nothing of them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

Patch = tuple[Any, str, Any]
"""Owner (a module or a class), name, value."""
Patches = Callable[[], list[Patch]]
Register = Callable[[Patches], Patches]

VARIABLE = "PYBROKER_DEFECT"
"""The environment variable that names the defect for child processes."""


class Defect(NamedTuple):
    """``patches()`` restores the defect; ``test`` is the pytest node id, or file, that must fail then.

    ``says`` is a regular expression for the failure's text. If several tests must find a defect, it has one entry for
    each.
    """

    name: str
    test: str
    patches: Patches
    says: str = ""

    @property
    def parameter(self) -> str:
        """Returns the text in brackets in the test's id, or ""."""
        return "".join(re.findall(r"\[(.*)\]", self.test))


IMPATIENCE_S = 20.0
"""The limit of each wait in a test that must fail. Without the defect, the test waits only for milliseconds."""
DEFECTS: list[Defect] = []


def defect(test: str, says: str = "") -> Register:
    """Registers a function that returns patches, under its name, as a defect that ``test`` must find."""

    def register(patches: Patches) -> Patches:
        DEFECTS.append(Defect(patches.__name__, test, patches, says))
        return patches

    return register


def rooms() -> list[str]:
    """Returns the modules that have the defects."""
    return [module.name for module in walk_packages(__path__, f"{__name__}.") if not module.ispkg]


def all_defects() -> list[Defect]:
    """Returns every defect of every room, sorted by name."""
    for room in rooms():
        import_module(room)
    return sorted(DEFECTS, key=lambda defect: (defect.name, defect.test))


def plant(name: str) -> None:
    """Patches this process permanently.

    Raises:
        ValueError: no function, or several, have that name.
        AttributeError: the replaced attribute no longer exists. A property may replace an instance's attribute.
    """
    [patches] = {defect.patches for defect in all_defects() if defect.name == name}
    for owner, attribute, value in patches():
        if not isinstance(value, property):
            getattr(owner, attribute)
        setattr(owner, attribute, value)


def lose_patience() -> None:
    """Shortens the limits of waits in all imported test modules, because with a defect the awaited event does not come.
    """
    for module in [module for name, module in sys.modules.items() if ".tests." in name]:
        if getattr(module, "PATIENCE_S", 0) > IMPATIENCE_S:
            module.PATIENCE_S = IMPATIENCE_S  # type: ignore[attr-defined]


def plant_in_children(name: str) -> None:
    """Makes Python child processes plant the defect when they start."""
    here = Path(__file__).parent
    paths = [str(here / "in_children"), str(here.parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ[VARIABLE] = name
