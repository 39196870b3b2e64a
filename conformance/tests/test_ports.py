"""Ports for brokers that must know theirs before they listen."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import pytest

from harness.servers import brokers
from harness.servers.brokers import PORTS_EACH, WORKERS, free_port


def test_workers_have_separate_ports_outside_the_ephemeral_range(monkeypatch: pytest.MonkeyPatch) -> None:
    everybodys: list[int] = []
    for worker in range(WORKERS):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        everybodys += itertools.islice(brokers._ports(), PORTS_EACH)
    assert len(set(everybodys)) == WORKERS * PORTS_EACH
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert 1024 < min(everybodys) < max(everybodys) < lowest


def test_a_port_is_not_handed_out_twice() -> None:
    assert len({free_port() for _ in range(50)}) == 50


def test_a_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(brokers, "_own_ports", iter([taken.getsockname()[1], free]))
        assert free_port() == free
