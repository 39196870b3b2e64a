"""Finds what a piece of code leaves to the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _all(kind: type) -> list[Any]:
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


@contextmanager
def leaves_nothing(kind: type) -> Iterator[None]:
    """Checks that objects of that kind that the block creates are gone at its end, without a collection."""
    gc.collect()
    gc.disable()
    try:
        before = _all(kind)
        known = {id(each) for each in before}
        yield
        left = [each for each in _all(kind) if id(each) not in known]
        assert not left, f"{len(left)} of them are left, for example {left[0]!r:.200}"
    finally:
        gc.enable()
