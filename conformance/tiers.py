"""Which tier a test belongs to: the gate, the nightly run or a campaign.

The tier stands where the cost is: in the fixture. What takes one of ``DEAR`` is ``nightly``; so is what says so by
``pytest.mark.nightly``, because it starts a process, sends a signal or depends on time. ``pytest.mark.campaign`` is for
what takes an hour. Everything else is the gate. CONTRIBUTING.md explains the tiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath

NIGHTLY = "nightly"
CAMPAIGN = "campaign"

DEAR = {
    "*cluster": "cluster",
    "*zookeeper": "cluster",
    "*spark": "spark",
    "*java*": "java",
    "*_broker": "process",
    "own": "process",
}
"""Patterns of fixtures' names, and what they start."""
PLACES = {
    "conformance/scenarios/cluster": "cluster",
    "pyclient/spark": "spark",
    "conformance/spark": "spark",
    "conformance/clients": "java",
    "conformance/applications": "java",
}
"""Folders all of whose tests start it."""
STARTED = {"cluster": "several brokers or ZooKeeper", "spark": "PySpark", "java": "a JVM", "process": "its own broker"}
"""Kinds of what tests start, dearest first."""
SHARED = ("cluster", "spark", "java")
"""What is started once for all tests that take it: they share a worker (an xdist group)."""

CLIENTS = ("client", "driver")
"""Parameters that name a client library."""


def started(path: PurePath, fixtures: Iterable[str], parameters: Mapping[str, object]) -> list[str]:
    """What a test in that file, with these fixtures and parameters, starts, dearest first; nothing in the gate."""
    names = {*fixtures, *(name for each in CLIENTS for name in _names(parameters.get(each)))}
    kinds = {kind for pattern, kind in DEAR.items() if any(fnmatchcase(name, pattern) for name in names)}
    kinds |= {kind for place, kind in PLACES.items() if place in path.as_posix()}
    return [kind for kind in STARTED if kind in kinds]


def _names(client: object) -> Iterable[str]:
    """``"java"`` and ``("java", "consumer")`` both name one."""
    return [client] if isinstance(client, str) else client if isinstance(client, tuple) else []
