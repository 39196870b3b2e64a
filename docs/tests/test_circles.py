"""Modules import each other in one direction: no circle, also none of types or of imports within functions.

import-linter keeps the floors and the rooms, and its contract about circles is one between packages. In a room a module
is read with what it imports, so two that import each other can only be read together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from docs.tests.blocks import ROOT

PACKAGES = ("cy", "pyclient", "pybroker", "proofs", "harness", "conformance", "docs", "examples")
SIMULATOR = "proofs.simulator"


def circle(room: str, names: Iterable[str]) -> frozenset[str]:
    """Modules of one room."""
    return frozenset(f"{room}.{name}" for name in names)


LEFT = {
    circle("pybroker.handlers", ("api_versions", "envelope")) | {"pybroker.handlers"}: (
        "the table has a row for the handlers that answer from the table"
    ),
    circle(f"{SIMULATOR}.machines", ("scheduler", "threads")): (
        "a baton goes round between the scheduler and its threads"
    ),
    circle(f"{SIMULATOR}.machines", ("broker", "cluster", "connection")): (
        "a process has a broker, which connects to other processes"
    ),
}
"""The circles that there are, and why; none is added without a reason, and none stays that is gone."""


def modules(root: Path, packages: tuple[str, ...] = PACKAGES) -> dict[str, Path]:
    """All modules of some packages, by name."""
    found = {}
    for package in packages:
        for path in (root / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those within others too. Expressions are left out, which are most of a module."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, part, ()))


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules among ``known`` that a module imports anywhere in its text."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        names = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            begin = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*begin, *filter(None, [node.module])])
            whole = {f"{source}.{each.name}" for each in node.names}
            names = [each if each in known else source for each in whole]
        yield from (each for each in names if each in known and each != name)


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Sets of two modules or more, each of which leads to all others of its set."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set(), list(graph[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph[name]
        reached[start] = seen
    return {
        frozenset(each for each in reached[name] if name in reached[each]) for name in graph if name in reached[name]
    }


def circles_in(root: Path, packages: tuple[str, ...] = PACKAGES) -> set[frozenset[str]]:
    """The circles between the modules of some packages."""
    known = modules(root, packages)
    return circles({name: set(imported(name, path, known)) for name, path in known.items()})


def test_no_modules_import_each_other_but_those_that_are_named() -> None:
    assert circles_in(ROOT) == set(LEFT)


def test_a_circle_of_types_and_one_within_a_function_are_found(tmp_path: Path) -> None:
    texts = {
        "__init__": "",
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.b import B\n",
        "b": "import room.c\n",
        "c": "def late():\n    from . import a\n",
        "d": "from room.a import A\n",
    }
    (tmp_path / "room").mkdir()
    for name, text in texts.items():
        (tmp_path / "room" / f"{name}.py").write_text(text)
    assert circles_in(tmp_path, ("room",)) == {frozenset({"room.a", "room.b", "room.c"})}
