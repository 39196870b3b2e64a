"""The topics of a resolved regular expression."""

from __future__ import annotations

from typing import NamedTuple


class Resolved(NamedTuple):
    """The topics that match an expression, with the metadata version and the time of the lookup."""

    topics: frozenset[str]
    version: int
    resolved_ms: int
