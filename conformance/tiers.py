"""Which tier a test belongs to: the gate, the nightly run or a campaign.

A test is ``nightly`` if it takes a fixture that ``DEAR`` names, or if its folder is one of ``PLACES``. A test that
starts a process of its own, sends a signal or depends on time says so by ``pytest.mark.nightly``. What takes more than
about ten minutes, or thousands of repetitions, is marked ``campaign``. Everything else is the gate: it may use a broker
that its module or session shares. CONTRIBUTING.md explains the tiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath

FOLDERS = ("conformance", "cy", "docs", "proofs", "pybroker", "pyclient")
"""The folders of the tests."""

NIGHTLY = "nightly"
CAMPAIGN = "campaign"

DEAR = {
    "*cluster": "cluster",
    "*zookeeper": "cluster",
    "*spark": "spark",
    "*java*": "java",
    "*_broker": "process",
}
"""Patterns of fixtures' names, with what each fixture starts."""
PLACES = {
    "conformance/scenarios/cluster": "cluster",
    "pyclient/spark": "spark",
    "conformance/spark": "spark",
    "conformance/clients": "java",
    "conformance/security": "java",
    "conformance/applications": "java",
    "conformance/bench": "process",
}
"""Folders whose tests all start the same thing, and that thing."""
STARTED = {"cluster": "several brokers or ZooKeeper", "spark": "PySpark", "java": "a JVM", "process": "its own broker"}
"""What tests start, the most expensive first."""
SHARED = ("cluster", "spark", "java")
"""All tests that take one of these start it once: they share a worker (an xdist group)."""

CLIENTS = ("client", "driver")
"""Parameters that name a client library."""


def started(path: PurePath, fixtures: Iterable[str], parameters: Mapping[str, object]) -> list[str]:
    """Returns what a test starts, by its file, fixtures and parameters, the most expensive first; nothing in the gate.
    """
    names = {*fixtures, *(name for each in CLIENTS for name in _names(parameters.get(each)))}
    kinds = {kind for pattern, kind in DEAR.items() if any(fnmatchcase(name, pattern) for name in names)}
    kinds |= {kind for place, kind in PLACES.items() if place in path.as_posix()}
    return [kind for kind in STARTED if kind in kinds]


def _names(client: object) -> Iterable[str]:
    """Returns the names in a parameter: ``"java"`` and ``("java", "consumer")`` both name one."""
    return [client] if isinstance(client, str) else client if isinstance(client, tuple) else []
