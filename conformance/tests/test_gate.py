"""Nothing in the gate depends on time: its tests read no clock and sleep for no time.

A test waits for an event, with a generous limit (``until`` of its floor); a state machine is given a clock. What cannot
be written so is marked ``nightly``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from conformance.tiers import CAMPAIGN, FOLDERS, NIGHTLY, started

ROOT = Path(__file__).parents[2]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"}
WALL_CLOCKS = {"time", "time_ns"}
"""These calls may date a record, but must not decide a test. A loop's ``time`` must not either."""
TIMERS = {"Timer", "call_later"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_left_out(node: ast.AST) -> bool:
    """Returns whether this decorator, or value of ``pytestmark``, puts tests into another tier."""
    return any(isinstance(each, ast.Attribute) and each.attr in (NIGHTLY, CAMPAIGN) for each in ast.walk(node))


def of_gate(path: Path, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements of a module or class that tests of the gate may run."""
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark" and is_left_out(node.value):
            return
    for node in body:
        if isinstance(node, ast.ClassDef) and not any(map(is_left_out, node.decorator_list)):
            yield from of_gate(path, node.body)
        elif isinstance(node, Function):
            if not is_of_another_tier(path, node):
                yield node
        elif not isinstance(node, ast.ClassDef):
            yield node


def is_of_another_tier(path: Path, node: Function) -> bool:
    """Returns whether a mark, or a fixture that a test or another fixture takes, puts it into another tier."""
    marks = [each for each in node.decorator_list if "parametrize" not in ast.unparse(each)]
    if any(map(is_left_out, marks)) or started(path, [], {}):
        return True
    is_fixture = any("fixture" in ast.unparse(each) for each in marks)
    taken = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
    return (is_fixture or node.name.startswith("test")) and bool(started(path, taken, {}))


def called(node: ast.AST, names: Mapping[str, str]) -> str:
    """Returns ``monotonic`` for ``time.monotonic()``, and "" if ``node`` is no call. ``names``: the module's renamed
    imports.
    """
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return names.get(name, name)


def renamed(module: ast.Module) -> dict[str, str]:
    """Returns ``{"now": "monotonic"}`` for ``from time import monotonic as now``."""
    imports = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    return {each.asname: each.name for node in imports for each in node.names if each.asname}


def waits(node: ast.AST, names: Mapping[str, str]) -> bool:
    """Returns whether this sleeps for more than 0 s, or sets a timer to a number."""
    if not isinstance(node, ast.Call) or not (given := [*node.args, *(each.value for each in node.keywords)]):
        return False
    name, number = called(node, names), getattr(given[0], "value", None)
    return (name == "sleep" and number != 0) or (name in TIMERS and bool(number))


def trespasses(statement: ast.stmt, names: Mapping[str, str]) -> Iterator[str]:
    """Yields the ways in which a statement of the gate uses time."""
    for node in ast.walk(statement):
        if waits(node, names) or called(node, names) in CLOCKS:
            yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Assert):
            for each in ast.walk(node):
                if called(each, names) in WALL_CLOCKS:
                    yield f"{node.lineno}: {ast.unparse(node)[:100]}"


def found(source: str, path: Path = Path("test_one.py")) -> list[str]:
    """Returns a module's trespasses, each once."""
    module = ast.parse(source)
    names = renamed(module)
    return sorted({each for statement in of_gate(path, module.body) for each in trespasses(statement, names)})


def test_no_test_of_the_gate_depends_on_time() -> None:
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py"))
    assert len(files) > 300
    wrong = [f"{path.relative_to(ROOT)}:{each}" for path in files for each in found(path.read_text(), path)]
    assert not wrong, "wait for an event, or mark as nightly:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def test():\n    assert time.monotonic() < 1", 1),
        ("async def test():\n    await asyncio.sleep(0.1)", 1),
        ("def test():\n    sleep(PAUSE_S)", 1),
        ("def test():\n    assert before < time.time()", 1),
        ("class A:\n    def test(self):\n        time.sleep(1)", 1),
        ("def test():\n    sleep(secs=1)", 1),
        ("from time import perf_counter as now\ndef test():\n    assert now() < 1", 1),
        ("def test():\n    assert loop.time() < 1", 1),
        ("def test():\n    threading.Timer(0.3, wake).start()", 1),
        ("def test():\n    loop.call_later(0.1, wake)", 1),
        ("def helper(new_broker):\n    time.sleep(1)", 1),
        ("@pytest.fixture\ndef started(new_broker):\n    time.sleep(1)", 0),
        ("def test():\n    loop.call_later(PATIENCE_S, give_up)", 0),
        ("async def test():\n    await asyncio.sleep(0)", 0),
        ("def test():\n    send(time.time())", 0),
        ("@pytest.mark.nightly\ndef test():\n    time.sleep(1)", 0),
        ("def test(new_broker):\n    time.sleep(1)", 0),
        ("pytestmark = pytest.mark.nightly\ndef test():\n    time.sleep(1)", 0),
        ("pytestmark = [pytest.mark.ours, pytest.mark.campaign]\ndef test():\n    time.sleep(1)", 0),
    ],
)
def test_the_lint_finds_tests_that_depend_on_time(source: str, lines: int) -> None:
    assert len(found(source)) == lines
