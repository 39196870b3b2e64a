"""Changes a module after its import: ``sitecustomize`` plants the sink's defects by it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Patch = Callable[[ModuleType], None]


class Breaker(importlib.abc.MetaPathFinder):
    """Finds one module as Python does, and changes it after its execution."""

    def __init__(self, name: str, patch: Patch) -> None:
        self.name = name
        self.patch = patch

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of the module itself, with our loader around its loader."""
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
