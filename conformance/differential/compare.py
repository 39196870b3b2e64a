"""Finds where two trees differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ABSENT = "<absent>"


@dataclass(frozen=True, slots=True)
class Difference:
    """``path``: dotted, ``[]`` for the rows of an array; ``left`` and ``right``: the leaves, as text."""

    api: str
    version: int
    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {self.path}: {self.left} | {self.right}"


def differences(api: str, version: int, left: Any, right: Any) -> list[Difference]:
    """Returns all leaves that differ, in the order of the left tree."""
    found: list[Difference] = []
    _walk(left, right, "", lambda path, a, b: found.append(Difference(api, version, path, repr(a), repr(b))))
    return found


def _walk(left: Any, right: Any, path: str, report: Any) -> None:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in [*left, *(name for name in right if name not in left)]:
            inner = f"{path}.{name}" if path else name
            _walk(left.get(name, ABSENT), right.get(name, ABSENT), inner, report)
    elif _rows(left) and _rows(right) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            _walk(one, other, path + "[]", report)
    elif left != right or type(left) is not type(right):
        report(path, left, right)


def _rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
