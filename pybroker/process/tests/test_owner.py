"""A broker also stops cleanly when its terminal is closed or its supervisor has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.tests.processes import broker, fleet, is_alive
from pybroker.tests.waiting import until
from pyclient import Admin

pytestmark = pytest.mark.nightly

CLEAN = ".kafka_cleanshutdown"


def test_brokers_whose_supervisor_is_killed_stop_cleanly(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2) as running:
        with Admin(f"127.0.0.1:{running.port}") as admin:
            admin.create_topics("t", num_partitions=4)
        running.process.kill()
        running.process.wait()
        until(lambda: not any(map(is_alive, running.pids)))
    assert all((tmp_path / f"broker-{node_id}" / CLEAN).exists() for node_id in (1, 2))


def test_a_halted_broker_whose_supervisor_is_killed_stops_cleanly(tmp_path: Path) -> None:
    with fleet(tmp_path, "--processes", 2) as running:
        os.kill(running.pids[0], signal.SIGSTOP)
        running.process.kill()
        running.process.wait()
        try:
            until(lambda: not any(map(is_alive, running.pids)))
        finally:
            for pid in filter(is_alive, running.pids):
                os.kill(pid, signal.SIGKILL)
    assert all((tmp_path / f"broker-{node_id}" / CLEAN).exists() for node_id in (1, 2))


@contextmanager
def hangup(handler: signal.Handlers) -> Iterator[None]:
    """Sets how child processes handle SIGHUP, independently of how the tests were started."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_stops_a_broker_cleanly(tmp_path: Path) -> None:
    with hangup(signal.SIG_DFL), broker(tmp_path) as running:
        assert running.stop(signal.SIGHUP).code == 0
    assert (tmp_path / "broker-1" / CLEAN).exists()


def test_a_closed_terminal_stops_several_brokers_cleanly(tmp_path: Path) -> None:
    with hangup(signal.SIG_DFL), fleet(tmp_path, "--processes", 2) as running:
        assert running.stop(signal.SIGHUP).code == 0
    assert all((tmp_path / f"broker-{node_id}" / CLEAN).exists() for node_id in (1, 2))


def test_a_broker_that_was_started_with_nohup_survives_a_closed_terminal(tmp_path: Path) -> None:
    with hangup(signal.SIG_IGN), broker(tmp_path) as running:
        running.process.send_signal(signal.SIGHUP)
        with Admin(f"127.0.0.1:{running.port}") as admin:
            admin.create_topics("t", num_partitions=1)
        assert running.stop().code == 0
