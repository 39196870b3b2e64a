"""Defects of the sink, loaded into Spark's processes; the kills must reveal each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Patch = Callable[[Any], None]


@dataclass(frozen=True)
class Mutant:
    """``stage`` and ``victim``: the kill after which its fault shows, as ``finding``."""

    module: str
    stage: str
    victim: str
    finding: str
    patch: Patch


MUTANTS: dict[str, Mutant] = {}


def _mutant(module: str, stage: str, victim: str, finding: str) -> Callable[[Patch], Patch]:
    def register(patch: Patch) -> Patch:
        MUTANTS[patch.__name__] = Mutant(f"pyclient.spark.sink.{module}", stage, victim, finding, patch)
        return patch

    return register


def patches(name: str | None) -> Iterator[tuple[str, Patch]]:
    """Yields a mutant's module and its change."""
    if name is not None:
        yield MUTANTS[name].module, MUTANTS[name].patch


@_mutant("commits", "before the decision", "worker", "doubled")
def ends_before_the_decision(module: Any) -> None:
    """Readers see the rows, and the batch runs again."""
    decide = module.Commits._decide

    def end_first(self: Any, state: Any, batch: int, written: Any) -> Any:
        self._check_fit = lambda *_: self._end(written, commit=True)
        return decide(self, state, batch, written)

    module.Commits._decide = end_first


@_mutant("commits", "ended", "worker", "doubled")
def does_not_look_into_the_ledger(module: Any) -> None:
    """A batch that runs again is written again."""
    join = module.Commits.join
    module.Commits.join = lambda self: join(self)._replace(batch=-1)
    module.verdict = lambda *_: module.Verdict.DECIDE


@_mutant("commits", "between the ends", "worker", "doubled")
def does_not_wait_for_the_ledger(module: Any) -> None:
    """The transactions end before the decision is in the ledger: a driver that dies then has decided nothing."""

    def append_later(self: Any, record: Any) -> None:
        if record.decides:
            self.later = record
        else:
            append(self, record)

    def leave(self: Any, *arguments: Any) -> None:
        if getattr(self, "later", None):
            append(self, self.later)
        exit_(self, *arguments)

    append, exit_ = module.Ledger.append, module.Ledger.__exit__
    module.Ledger.append, module.Ledger.__exit__ = append_later, leave
    module.is_decided = lambda state, record: True
    finish = module.Commits._finish

    def finish_later(self: Any, state: Any) -> Any:
        later: Any = getattr(self._ledger, "later", state)
        return finish(self, state._replace(transactions=later.transactions))

    module.Commits._finish = finish_later


@_mutant("commits", "decided", "worker", "lost")
def aborts_what_is_decided(module: Any) -> None:
    """The next run takes all open transactions for orphans, and trusts the ledger that the batch is written."""
    module.orphans = lambda opened, decided, spared="": [one.transaction for one in opened]
    put = module.Commits._put_in_order

    def forget(self: Any, state: Any, left: Any, spared: str) -> None:
        put(self, state._replace(transactions=()), left, spared)

    module.Commits._put_in_order = forget
    module.lost = lambda *_: {}
