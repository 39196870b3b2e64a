"""Checks a guest's rights against the answers to its administrator: no broker may wrongly admit or refuse it.

Each guest is given its right once and loses it once. A change counts at the broker that has answered it, and at every
broker that started afterwards. At the others it counts once all is calm.
"""

from __future__ import annotations

from enum import IntEnum

from proofs.simulator.machines.cluster import Cluster, Process
from proofs.simulator.oracle.oracle import Violation


class Step(IntEnum):
    """The state of a guest's right."""

    NEW = 0
    GRANTING = 1
    GRANTED = 2
    REVOKING = 3
    REVOKED = 4


class Guest:
    """A guest. Each request of its administrator may get lost and still arrive later."""

    def __init__(self, number: int, cluster: Cluster) -> None:
        self.name = f"g{number}"
        self.principal = f"User:{self.name}"
        self.step = Step.NEW
        self.is_certain = True
        """No request to grant the right was lost. A lost one could arrive after the right was revoked."""
        self._cluster = cluster
        self._told: set[int] = set()
        self._older: set[Process | None] = set()

    def begins(self, step: Step) -> None:
        """Notes the administrator's first request for a step."""
        self.step = step
        self._told.clear()

    def answered(self, broker: int) -> None:
        """Notes that the broker confirms the step."""
        self.step = Step(self.step + 1)
        self._told.add(broker)
        self._older = {machine.process for machine in self._cluster.machines.values()}

    def lost(self) -> None:
        """Notes a request without an answer, or with one that decides nothing."""
        self.is_certain = self.is_certain and self.step != Step.GRANTING

    def must_be_refused(self, broker: int) -> bool:
        """Returns whether the broker must refuse the guest's requests now."""
        return self.step == Step.NEW or (self.step == Step.REVOKED and self.is_certain and self._knows(broker))

    def must_be_served(self, broker: int) -> bool:
        """Returns whether the broker must not refuse the guest for a lack of rights."""
        return self.step == Step.GRANTED and self._knows(broker)

    def _knows(self, broker: int) -> bool:
        return broker in self._told or self._cluster.machines[broker].process not in self._older

    def let_in(self, what: str) -> Violation:
        """Returns the violation that a broker admitted the guest without the right."""
        return Violation("let in", f"{self.principal}, {self.step.name.lower()}: {what}")

    def kept_out(self, what: str) -> Violation:
        """Returns the violation that a broker refused the guest in spite of the right."""
        return Violation("kept out", f"{self.principal}, {self.step.name.lower()}: {what}")
