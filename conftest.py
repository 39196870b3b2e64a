"""What all suites have in common: ``--broker`` says which broker is tested, ``long`` tests wait to be asked for.

No property depends on time: a machine that is busy must not fail one.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", choices=["kafka", "ours"], default="ours", help="which broker to test")
    told = "tests of rows only; what they show goes into this file (conformance/recorder.py)"
    parser.addoption("--conformance-report", type=Path, default=None, metavar="FILE.json", help=told)
    defect = "plant a defect that was mended (pybroker/testing/defects): the test that it names must fail"
    parser.addoption("--defect", default=None, metavar="NAME", help=defect)


def pytest_configure(config: pytest.Config) -> None:
    """Plants the defect that was asked for, in this process and in those that tests start."""
    config.addinivalue_line("markers", "long: takes minutes; runs with -m long only, its short form always")
    if name := config.getoption("--defect"):
        from pybroker.testing.defects import plant, plant_in_children

        plant_in_children(name)
        plant(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects (does not skip) long tests that were not asked for."""
    if "long" in config.getoption("-m"):
        return
    unwanted = [item for item in items if item.get_closest_marker("long")]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_sessionstart() -> None:
    """Ctrl-C works in the tests and in what they start, also where a shell began them in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
