"""Finds the shortest part of a sequence that still shows a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance.differential.step import Step


def shrink(steps: Sequence[Step], shows: Callable[[list[Step]], bool], attempts: int = 80) -> list[Step]:
    """Leaves out runs of steps, then options, as long as ``shows`` says that the difference is still there."""
    kept, tries = list(steps), attempts
    size = max(1, len(kept) // 2)
    while size and tries:
        place = 0
        while place < len(kept) and tries:
            shorter = kept[:place] + kept[place + size :]
            tries -= 1
            if shorter and shows(shorter):
                kept = shorter
            else:
                place += size
        size //= 2
    return _plain(kept, shows, tries)


def _plain(kept: list[Step], shows: Callable[[list[Step]], bool], tries: int) -> list[Step]:
    for place, one in enumerate(kept):
        for name, _ in one.options:
            if name == "version" or not tries:
                continue
            fewer = tuple(option for option in kept[place].options if option[0] != name)
            plainer = [*kept[:place], Step(one.actor, one.verb, fewer), *kept[place + 1 :]]
            tries -= 1
            if shows(plainer):
                kept = plainer
    return kept
