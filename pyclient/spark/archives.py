"""Keeps the tables of archives on Python's import path, in Spark's worker processes.

Spark's PYTHONPATH contains archives, among them the jar of Spark's core with its thousands of entries. At the start of
each task, Spark 4.0 (no longer 4.3) makes Python forget them (``importlib.invalidate_caches``). Python then reads
their tables again, in Python. This takes a tenth of a second of CPU for each task, however small.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from zipimport import zipimporter


def keep() -> None:
    """Keeps what this process knows about archives as long as their files do not change."""
    for finder in list(sys.path_importer_cache.values()):
        if isinstance(finder, zipimporter) and "invalidate_caches" not in vars(finder):
            finder.invalidate_caches = _unless_same(finder)  # type: ignore[method-assign]


def _unless_same(finder: zipimporter) -> Callable[[], None]:
    known = _stamp(finder.archive)

    def invalidate_caches() -> None:
        nonlocal known
        found = _stamp(finder.archive)
        if found is None or found != known:
            known = found
            zipimporter.invalidate_caches(finder)

    return invalidate_caches


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Returns a value that identifies a file's version, None if it is unknown."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
