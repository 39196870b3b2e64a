"""Hangs an event loop while its process lives: a write does not return, or a computation does not end.

The session expires once the loop has not run for the session's timeout, whatever else the process does, and on every
store. So other brokers lead soon after that, and one of them is the controller (``leads``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofs.simulator.faults.surroundings import Surroundings
from proofs.simulator.machines.scheduler import ProcessLoop
from pybroker.cluster.metadata import znodes

BOUND_S = 1.0
"""The time from the session's expiry until others must lead."""
LONG_S = 2.5


class Hangs:
    """Draws a broker whose loop hangs. Only one hangs at a time, so that others can lead."""

    def __init__(self, faults: Surroundings) -> None:
        self.faults = faults
        self.cluster = faults.cluster
        self.rng = faults.rng
        self._hung: ProcessLoop | None = None
        self.kinds: dict[str, Callable[[], None]] = {"hang": self._hang}

    def _hang(self) -> None:
        node_id = self.faults.some_broker()
        process = self.cluster.machines[node_id].process
        everybody = {broker.node_id for broker in self.cluster.brokers()}
        if (
            self._hung is not None
            or process is None
            or process.store is None
            or everybody != self.cluster.machines.keys()
        ):
            return
        self.cluster.note(f"the loop of broker {node_id} hangs")
        self._hung = process.loop
        process.loop.pause()
        self.cluster.store.halted(process.store)
        due_s = self.cluster.store.timeout_s + BOUND_S
        self.cluster.scheduler.after(due_s, self._check, process)
        self.cluster.scheduler.after(due_s + self.rng.random() * LONG_S, self._go_on, process)

    def _go_on(self, process: Any) -> None:
        self.cluster.note(f"the loop of broker {process.node_id} goes on")
        process.loop.go_on()
        self._hung = None

    def _check(self, process: Any) -> None:
        """Checks that the hanging broker leads nothing."""
        if not process.loop.is_paused:
            return
        oracle, node_id = self.cluster.watcher, process.node_id
        for tp, state in oracle.authority.items():
            if state.leader == node_id and len(state.isr) > 1:
                oracle.fail("leads", f"{tp}: broker {node_id}hangs, but still leads {list(state.isr)}")
        node = self.cluster.store.tree.nodes.get(znodes.CONTROLLER)
        if node is not None and znodes.decode_controller(node.data) == node_id:
            oracle.fail("leads", f"broker {node_id}hangs, but is still the controller")
