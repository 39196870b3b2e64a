"""What a regular expression has been found to stand for."""

from __future__ import annotations

from typing import NamedTuple


class Resolved(NamedTuple):
    """The topics that an expression stands for, in which version of the metadata, and since when."""

    topics: frozenset[str]
    version: int
    resolved_ms: int
