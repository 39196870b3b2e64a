"""What a piece of code leaves to the garbage collector, which seldom looks at all there is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _all(kind: type) -> list[Any]:
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


@contextmanager
def leaves_nothing(kind: type) -> Iterator[None]:
    """What is made of that kind in the block is gone at its end, without a collection. What others have made does
    not count: it is held until then, so that no new object has its address.
    """
    gc.collect()
    gc.disable()
    try:
        before = _all(kind)
        known = {id(each) for each in before}
        yield
        left = [each for each in _all(kind) if id(each) not in known]
        assert not left, f"{len(left)} of them are left, one is {left[0]!r:.200}"
    finally:
        gc.enable()
