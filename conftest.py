"""What all suites have in common: ``--broker`` says which broker is tested, ``long`` tests wait to be asked for.

No property depends on time: a machine that is busy must not fail one.
"""

from __future__ import annotations

import faulthandler
import signal
import zlib
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


LONG_S = 3_600
"""The limit of a long test that has none of its own: that of all others is for tests that take seconds."""
PARTS = 20
"""Among which the planted defects are divided, where several processes run tests."""
SPARE_S = 120.0
"""Behind a test's own limit: it is told as a failed test, where a signal reaches it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", choices=["kafka", "ours"], default="ours", help="which broker to test")
    told = "tests of rows only; what they show goes into this file (conformance/report/recorder.py)"
    parser.addoption("--conformance-report", type=Path, default=None, metavar="FILE.json", help=told)
    defect = "plant a defect that was mended (pybroker/testing/defects): the test that it names must fail"
    parser.addoption("--defect", default=None, metavar="NAME", help=defect)


def pytest_configure(config: pytest.Config) -> None:
    """Plants the defect that was asked for, in this process and in those that tests start."""
    config.addinivalue_line("markers", "long: takes minutes; runs with -m long only, its short form always")
    config.addinivalue_line("markers", "spark: reads or writes by PySpark too")
    if name := config.getoption("--defect"):
        from pybroker.testing.defects import plant, plant_in_children

        plant_in_children(name)
        plant(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects (does not skip) long tests that were not asked for; others may take ``LONG_S``, or what they say."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_S))
    if "long" in config.getoption("-m"):
        return
    unwanted = [item for item in items if item.get_closest_marker("long")]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` a file's tests run in one process, but for planted defects: each is a run of its own."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            apart = f" {zlib.crc32(nodeid.encode()) % PARTS}" if "/test_defects.py::" in nodeid else ""
            return super()._split_scope(nodeid) + apart

    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test's own time limit counts before ``faulthandler_timeout``, which ends a run that hangs with all stacks."""
    marker, patience_s = item.get_closest_marker("timeout"), float(item.config.getini("faulthandler_timeout") or 0)
    if marker is None or not marker.args or not patience_s:
        return
    own_s = float(marker.args[0])
    if own_s == 0:
        faulthandler.cancel_dump_traceback_later()
    elif own_s + SPARE_S > patience_s:
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        ends = bool(item.config.getini("faulthandler_exit_on_timeout"))
        faulthandler.dump_traceback_later(own_s + SPARE_S, file=stderr, exit=ends)


def pytest_sessionstart() -> None:
    """Ctrl-C works in the tests and in what they start, also where a shell began them in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
