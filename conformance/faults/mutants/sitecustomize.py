"""Breaks the broker of this process, if ``PYBROKER_MUTANT`` names one of ``planted``: for tests of tests only.

Python imports this at its start where it finds it. The broker's modules are imported as ever; the one that a mutant
concerns is changed as soon as it has been. A marker in the process's environment is all that production code could see.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Patch = Callable[[ModuleType], None]


class Breaker(importlib.abc.MetaPathFinder):
    """Finds one module as everybody does, and has it changed when it has been executed."""

    def __init__(self, name: str, patch: Patch) -> None:
        self.name = name
        self.patch = patch

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with our loader around its own."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_break(module: ModuleType) -> None:
            execute(module)
            self.patch(module)

        spec.loader.exec_module = execute_and_break  # type: ignore[method-assign]
        return spec


if "PYBROKER_MUTANT" in os.environ:
    import importlib.util

    import planted

    for place, change in planted.patches(os.environ["PYBROKER_MUTANT"]):
        sys.meta_path.insert(0, Breaker(place, change))
