"""One step of a sequence: who does what, how."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """A request in a sequence. ``options`` are literals, in the order in which they are shown."""

    actor: int
    verb: str
    options: tuple[tuple[str, Any], ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an option of the step, or the default of a step without it."""
        return next((value for key, value in self.options if key == name), default)

    @property
    def version(self) -> int:
        return int(self.get("version", 0))

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.options)
        return f"{self.actor}.{self.verb}({told})"


def step(actor: int, verb: str, **options: Any) -> Step:
    return Step(actor, verb, tuple(options.items()))


def show(steps: Iterable[Step]) -> str:
    """Returns a sequence as text, with a line for each step."""
    return "\n".join(str(one) for one in steps)


def parse(text: str) -> list[Step]:
    """Returns the sequence of a text from ``show``.

    Raises:
        ValueError: a line is not a step.
    """
    return [_parse_line(line.strip()) for line in text.splitlines() if line.strip()]


def _parse_line(line: str) -> Step:
    actor, _, call = line.partition(".")
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise ValueError(f"no step: {line}")
    options = tuple((str(word.arg), ast.literal_eval(word.value)) for word in tree.keywords)
    return Step(int(actor), tree.func.id, options)
