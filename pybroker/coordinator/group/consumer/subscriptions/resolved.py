"""The topics of a resolved regular expression."""

from __future__ import annotations

from typing import NamedTuple


class Resolved(NamedTuple):
    """The topics that match an expression, the metadata version, and the time."""

    topics: frozenset[str]
    version: int
    resolved_ms: int
