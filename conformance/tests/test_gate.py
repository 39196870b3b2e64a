"""Nothing in the gate depends on time: its tests read no clock and sleep for no time.

A test waits for an event, with a generous limit (``until`` of its room); a state machine is given a clock. What cannot
be written so is marked ``nightly``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.tiers import CAMPAIGN, NIGHTLY, started

ROOT = Path(__file__).parents[2]
FOLDERS = ("cy", "pyclient", "pybroker", "docs", "conformance")
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
WALL_CLOCKS = {"time", "time_ns"}
"""These may say when a record was made, but not whether a test passes."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_left_out(node: ast.AST) -> bool:
    """Whether this decorator, or value of ``pytestmark``, puts tests into another tier."""
    return any(isinstance(each, ast.Attribute) and each.attr in (NIGHTLY, CAMPAIGN) for each in ast.walk(node))


def of_gate(path: Path, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module or class that tests of the gate may run."""
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark" and is_left_out(node.value):
            return
    for node in body:
        if isinstance(node, ast.ClassDef) and not any(map(is_left_out, node.decorator_list)):
            yield from of_gate(path, node.body)
        elif isinstance(node, Function):
            fixtures = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
            marked = [each for each in node.decorator_list if "parametrize" not in ast.unparse(each)]
            if not any(map(is_left_out, marked)) and not started(path, fixtures, {}):
                yield node
        elif not isinstance(node, ast.ClassDef):
            yield node


def called(node: ast.AST) -> str:
    """``time.monotonic()`` → ``monotonic``; "" where ``node`` is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_of_time(node: ast.AST) -> bool:
    """Whether the owner of this call is the module ``time``, or there is none."""
    assert isinstance(node, ast.Call)
    return not isinstance(node.func, ast.Attribute) or ast.unparse(node.func.value) == "time"


def sleeps(node: ast.AST) -> bool:
    """Whether this is a call that sleeps for longer than no time."""
    return (
        called(node) == "sleep"
        and isinstance(node, ast.Call)
        and bool(node.args)
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    )


def trespasses(statement: ast.stmt) -> Iterator[str]:
    """What a statement of the gate does with time."""
    for node in ast.walk(statement):
        if sleeps(node) or (called(node) in CLOCKS and is_of_time(node)):
            yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Assert):
            for each in ast.walk(node):
                if called(each) in WALL_CLOCKS and is_of_time(each):
                    yield f"{node.lineno}: {ast.unparse(node)[:100]}"


def found(source: str, path: Path = Path("test_one.py")) -> list[str]:
    """All of a module, each once."""
    statements = of_gate(path, ast.parse(source).body)
    return sorted({each for statement in statements for each in trespasses(statement)})


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
        ("async def test():\n    await asyncio.sleep(0)", 0),
        ("def test():\n    send(time.time())", 0),
        ("@pytest.mark.nightly\ndef test():\n    time.sleep(1)", 0),
        ("def test(new_broker):\n    time.sleep(1)", 0),
        ("pytestmark = pytest.mark.nightly\ndef test():\n    time.sleep(1)", 0),
        ("pytestmark = [pytest.mark.ours, pytest.mark.campaign]\ndef test():\n    time.sleep(1)", 0),
    ],
)
def test_the_lint_finds_what_depends_on_time(source: str, lines: int) -> None:
    assert len(found(source)) == lines
