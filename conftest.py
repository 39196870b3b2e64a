"""What all suites have in common: ``--broker`` says which broker is tested, ``conformance/tiers.py`` which tier a test
belongs to. Campaigns wait to be asked for by ``-m campaign``.
"""

from __future__ import annotations

import faulthandler
import gc
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

from conformance import budget
from conformance.tiers import CAMPAIGN, NIGHTLY, SHARED, STARTED, started

settings.register_profile("free", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", settings.get_profile("free"), derandomize=True)
settings.load_profile("free")  # --hypothesis-profile=gate, as in tox.ini: the same examples in each run


CAMPAIGN_S = 3_600
"""Time limit for campaign tests that set none; pyproject.toml's limit is for short tests."""
SPARE_S = 120.0
"""Wait this much longer than a test's own limit, so that pytest-timeout can first report the test as failed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", choices=["kafka", "ours"], default="ours", help="which broker to test")
    told = "tests of rows only; what they show goes into this file (conformance/report/recorder.py)"
    parser.addoption("--conformance-report", type=Path, default=None, metavar="FILE.json", help=told)
    defect = "plant a defect (proofs/defects): the test that it names must fail"
    parser.addoption("--defect", default=None, metavar="NAME", help=defect)
    most = "fail the run if it takes more CPU time (conformance/budget.py)"
    parser.addoption(budget.OPTION, type=float, default=None, metavar="SECONDS", help=most)


def pytest_configure(config: pytest.Config) -> None:
    """Plants the defect that was asked for, in this process and in those that tests start."""
    config.addinivalue_line("markers", f"{NIGHTLY}: dear, or depends on time, processes or signals; not in the gate")
    config.addinivalue_line("markers", f"{CAMPAIGN}: takes more than ten minutes; runs with -m {CAMPAIGN} only")
    for kind, what in STARTED.items():
        config.addinivalue_line("markers", f"{kind}: starts {what}; nightly, by what the test takes")
    budget.register(config)
    if name := config.getoption("--defect"):
        from proofs.defects import plant, plant_in_children

        plant_in_children(name)
        plant(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nearly all that is made here stays: the garbage collector never looks for garbage in it, neither now nor when a
    test calls it, which took it 0.4 s.
    """
    gc.disable()
    collected = yield
    gc.enable()
    gc.freeze()
    return collected


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the nightly tests by what they take; deselects (does not skip) campaigns that were not asked for."""
    campaigns = [item for item in items if item.get_closest_marker(CAMPAIGN)]
    others = [item for item in items if not item.get_closest_marker(CAMPAIGN)]
    for item in campaigns:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CAMPAIGN_S))
    for item in others:
        if isinstance(item, pytest.Function) and (kinds := _started(item)):
            _mark(item, kinds)
    if campaigns and CAMPAIGN not in config.getoption("-m"):
        config.hook.pytest_deselected(items=campaigns)
        items[:] = others


def _started(item: pytest.Function) -> list[str]:
    """What the test starts, dearest first."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return started(item.path, item.fixturenames, parameters)


def _mark(item: pytest.Function, kinds: list[str]) -> None:
    """Marks a nightly test. Those that share something dear run on one worker."""
    for mark in (NIGHTLY, *kinds):
        item.add_marker(mark)
    if shared := [kind for kind in kinds if kind in SHARED]:
        item.add_marker(pytest.mark.xdist_group(shared[0]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """A test that must fail does not wait as long for what does not come."""
    if session.config.getoption("--defect"):
        from proofs.defects import lose_patience

        lose_patience()


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
