"""The protocol's numbers appear only by name: error codes, kinds of resources and coordinators.

The test searches the source, because a comparison with a wrong bare number reads well, and nobody notices it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("conformance", "cy", "docs", "examples", "harness", "proofs", "pybroker", "pyclient")
PLAIN = (0, -1)
"""No error, and no error that a broker sends."""
LARGEST = 133
"""The largest error code of Kafka 4.3; HTTP's statuses lie above."""
ERRORS = {"error", "value", "refusal", "failure"}
"""Caught errors have these names; their ``code`` is one of Kafka's, not that of an ended process."""
KINDS = {"resource_type", "key_type", "config_operation", "config_source"}
MAKERS = {"by_code", "of_code"}
TABLE = "pyclient/protocol/errors.py"
TABLES = (TABLE, "harness/protocol/error_codes.py")
"""These files define each error's number: one for our code, one for the suite, which must not import ours."""
NAMES = frozenset(re.findall(r'^    \(-?\d+, "(\w+)"', (ROOT / TABLE).read_text(), re.MULTILINE))
MENTION = re.compile(rf"error_code|\.code\b|\b({'|'.join(KINDS | MAKERS | NAMES)})\b")
"""A file must mention one of these; the test does not parse others."""


def _numbers(node: ast.expr) -> Iterator[int]:
    """Yields the integers in a literal, or in a display of literals."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and type(each.value) is int:
            yield each.value
        elif not isinstance(each, ast.Constant | ast.Tuple | ast.List | ast.Set | ast.Load):
            return


def _is_code(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id.endswith("error_code")
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return node.attr.endswith("error_code") or (node.attr == "code" and owner in ERRORS)


def _compared(node: ast.Compare) -> Iterator[int]:
    sides = [node.left, *node.comparators]
    if any(map(_is_code, sides)):
        for side in sides:
            yield from (number for number in _numbers(side) if number not in PLAIN and number <= LARGEST)


def _given(node: ast.AST) -> Iterator[int]:
    """Yields bare numbers for arguments whose values all have names."""
    if isinstance(node, ast.keyword) and node.arg in KINDS:
        yield from _numbers(node.value)
    elif isinstance(node, ast.keyword) and (node.arg or "").endswith("error_code"):
        yield from (number for number in _numbers(node.value) if 0 < number <= LARGEST)
    elif isinstance(node, ast.Assign):
        names = {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        yield from _numbers(node.value) if names & NAMES else ()
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in KINDS:
                yield from _numbers(value)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in MAKERS and node.args:
            yield from (number for number in _numbers(node.args[0]) if 0 < number <= LARGEST)


def unnamed(source: str) -> list[tuple[int, int]]:
    """Returns line and number of each bare number."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            found += [(node.lineno, number) for number in _compared(node)]
        else:
            found += [(getattr(node, "lineno", 0), number) for number in _given(node)]
    return found


def test_error_codes_and_resource_types_are_written_by_name() -> None:
    told = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if path.relative_to(ROOT).as_posix() in TABLES or not MENTION.search(text):
                continue
            told += [f"{path.relative_to(ROOT)}:{line}: {number}" for line, number in unnamed(text)]
    assert told == [], "\n" + "\n".join(told)


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("row.error_code == 47", [47]),
        ("row.error_code in (3, 5)", [3, 5]),
        ("row.error_code not in {70, 71}", [70, 71]),
        ("error.code == 90 or told.value.code == 10", [90, 10]),
        ("error_code != 14", [14]),
        ("of_code(100)", [100]),
        ("ask(resource_type=4)", [4]),
        ("{'config_operation': 0}", [0]),
        ("row.error_code == 0", []),
        ("row.error_code == errors.NotController.code", []),
        ("error.code not in (404, 409)", []),
        ("ended.code == 2", []),
        ("by_code(9999)", []),
        ("Response(error_code=16)", [16]),
        ("Response(error_code=0)", []),
        ("NOT_COORDINATOR, COUNT = 16, 7", [16, 7]),
        ("NOT_COORDINATOR = errors.NotCoordinator.code", []),
        ("codes[2].error_code == FENCED", []),
    ],
)
def test_a_bare_number_for_an_error_code_or_resource_type_is_found(source: str, numbers: list[int]) -> None:
    assert [number for _, number in unnamed(source)] == numbers
