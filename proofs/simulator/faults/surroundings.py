"""The cluster as a kind of fault sees it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Protocol

from proofs.simulator.machines.cluster import Cluster


class Surroundings(Protocol):
    """The part of ``faults.Faults`` that the kinds of faults use."""

    cluster: Cluster
    rng: Random

    def later(self, work: Callable[[], object], mean_s: float) -> None: ...

    def some_broker(self) -> int: ...

    def ask_controller(self, ask: Callable[[Any], Coroutine[Any, Any, object]]) -> None: ...
