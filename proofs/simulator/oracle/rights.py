"""What a guest may do, by what its administrator was told: nobody is let in, and nobody kept out.

Each guest is given its right once and loses it once. A change counts at the broker that has answered it, and at every
broker that started afterwards. At the others it counts once all is calm.
"""

from __future__ import annotations

from enum import IntEnum

from proofs.simulator.machines.cluster import Cluster, Process
from proofs.simulator.oracle.oracle import Violation


class Step(IntEnum):
    """How far a guest is."""

    NEW = 0
    GRANTING = 1
    GRANTED = 2
    REVOKING = 3
    REVOKED = 4


class Guest:
    """One of them; a request of its administrator is one attempt, which may be lost and still arrive."""

    def __init__(self, number: int, cluster: Cluster) -> None:
        self.name = f"g{number}"
        self.principal = f"User:{self.name}"
        self.step = Step.NEW
        self.is_certain = True
        """No attempt to grant the right was lost: such a one could arrive after the right was taken away."""
        self._cluster = cluster
        self._told: set[int] = set()
        self._older: set[Process | None] = set()

    def begins(self, step: Step) -> None:
        """The administrator asks a broker for the first time."""
        self.step = step
        self._told.clear()

    def answered(self, broker: int) -> None:
        """The broker says that it is done."""
        self.step = Step(self.step + 1)
        self._told.add(broker)
        self._older = {machine.process for machine in self._cluster.machines.values()}

    def lost(self) -> None:
        """An attempt has no answer, or one that says nothing."""
        self.is_certain = self.is_certain and self.step != Step.GRANTING

    def must_be_refused(self, broker: int) -> bool:
        """Whether the broker must refuse what is sent to it now."""
        return self.step == Step.NEW or (self.step == Step.REVOKED and self.is_certain and self._knows(broker))

    def must_be_served(self, broker: int) -> bool:
        """Whether the broker must not say that the right is missing."""
        return self.step == Step.GRANTED and self._knows(broker)

    def _knows(self, broker: int) -> bool:
        return broker in self._told or self._cluster.machines[broker].process not in self._older

    def let_in(self, what: str) -> Violation:
        """The guest got what it had no right to."""
        return Violation("let in", f"{self.principal}, {self.step.name.lower()}: {what}")

    def kept_out(self, what: str) -> Violation:
        """The guest was refused what it had a right to."""
        return Violation("kept out", f"{self.principal}, {self.step.name.lower()}: {what}")
