"""The watcher of a silent loop reports what it must, and nothing else."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.faults.checkers import silence
from conformance.faults.checkers.silence import SILENT, Silence
from harness.waiting import until

pytestmark = [pytest.mark.ours, pytest.mark.nightly]
NO_APIS = struct.pack(">hi", 0, 0)


@contextmanager
def answering(gate: threading.Event) -> Iterator[Any]:
    """Starts brokers, of which the only one answers while the gate is open."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.read(4):
                frame = self.rfile.read(*struct.unpack(">i", head))
                gate.wait()
                body = frame[4:8] + NO_APIS
                self.wfile.write(struct.pack(">i", len(body)) + body)
                self.wfile.flush()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(ids=(1,), address=lambda broker: server.server_address)
        gate.set()
        server.shutdown()


def test_a_broker_that_is_silent_for_too_long_is_an_anomaly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "BOUND_S", 0.3)
    gate = threading.Event()
    gate.set()
    with answering(gate) as brokers:
        asked = Silence(brokers)
        asked.begin()
        until(lambda: asked.answers[1] > 3, "some answers")
        gate.clear()
        threading.Timer(0.8, gate.set).start()
        until(lambda: asked.anomalies, "an anomaly")
        asked.end()
    assert asked.anomalies[0].kind == SILENT
    assert asked.longest_s[1] > 0.3


def test_a_broker_silenced_by_a_fault_is_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "BOUND_S", 0.3)
    gate = threading.Event()
    gate.set()
    with answering(gate) as brokers:
        asked = Silence(brokers)
        asked.begin()
        until(lambda: asked.answers[1] > 3, "some answers")
        with asked.excused():
            gate.clear()
            threading.Event().wait(0.8)
            gate.set()
        before = asked.answers[1]
        until(lambda: asked.answers[1] > before + 3, "answers after the fault")
        asked.end()
    assert all("0.8" not in str(each) for each in asked.anomalies)
    assert asked.longest_s[1] < 0.8
