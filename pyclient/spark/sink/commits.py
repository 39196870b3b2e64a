"""The work of tasks and driver for ``exactly_once``, which decides: appending records and ending transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple, Self
from uuid import uuid4

from cy.counted import counted
from pyclient.admin import Admin
from pyclient.config import ADMIN
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.spark.sink import transactions
from pyclient.spark.sink.exactly_once import (
    NOTHING,
    BatchLost,
    Deposed,
    NotDecided,
    Opened,
    Plan,
    Record,
    State,
    Verdict,
    claim,
    decision,
    is_decided,
    lost,
    orphans,
    unfit,
    verdict,
    withdrawal,
)
from pyclient.spark.sink.ledger import Ledger

log = logging.getLogger("pyclient.spark")
END_S: Final = 120.0
"""The most seconds for ending a batch's transactions."""
LATE_S: Final = 3.0
"""Seconds in which tasks of an aborted batch may still act: Spark kills a worker that does not end within two seconds
(spark.python.task.killTimeout).
"""
MARGIN_MS: Final = 30_000
"""Milliseconds that a transaction must have left when it is decided, or a quarter of its time-out if that is less."""


class Job(NamedTuple):
    """What tasks and driver of one run of a query share."""

    client: tuple[tuple[str, str], ...]
    """The settings from ``kafka.*``."""
    topic: str
    """The name of the ledger."""
    prefix: str
    query: str
    run: str
    timeout_ms: int
    """The setting transaction.timeout.ms of the producers."""
    is_named: bool
    """True if the query may run again under this name."""
    fails_on_loss: bool


class Commits:
    """One run of a query, as the ledger knows it. Its methods block, and raise KafkaError."""

    def __init__(self, job: Job, plan: Plan) -> None:
        """``plan`` is that of the batch that this process handles."""
        self.job = job
        self.plan = plan
        self._begin = transactions.begin_of(job.prefix, job.query)
        client = {key: value for key, value in job.client if key in ADMIN}
        with ExitStack() as clients:
            self._admin = clients.enter_context(Admin(config=client))
            self._ledger = clients.enter_context(Ledger(client, job.topic, self._admin))
            self._clients = clients.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.close()

    # -- tasks -------------------------------------------------------------------------------------

    def join(self) -> State:
        """Returns the state in which this run may write: it has the claim, and transactions of earlier runs are ended.
        """
        if not self.job.is_named:
            self._mend()
        state = self._ledger.state(self.job.query)
        while (record := claim(state, self.job.query, self.job.run, self.plan)) is not None:
            state = self._claim(record)
        return state

    def _claim(self, record: Record) -> State:
        """Appends the claim. Returns the state, after ending transactions of earlier runs if the claim counts."""
        left = transactions.opened(self._admin, self._begin)
        self._ledger.append(record)
        state = self._ledger.state(record.query)
        if state.run == record.run:
            state = self._confirm(state, record.query)
        if state.run == record.run:
            self._put_in_order(state, left, transactions.begin_of(self.job.prefix, record.query, record.run))
        return state

    def _confirm(self, state: State, query: str) -> State:
        """Writes the last decision again as this run's own, so that records of earlier runs are not needed. Returns the
        state.
        """
        if state.batch == NOTHING:
            return state
        record = decision(state, query, state.batch, state.transactions, state.timeout_ms)
        self._ledger.append(record)
        found = self._ledger.state(query)
        if is_decided(found, record):
            self._ledger.bury(query, *state.past)
        return found

    def _put_in_order(self, state: State, left: list[Opened], spared: str) -> None:
        """Commits the transactions of the last decision, and aborts the others that were open before the claim. If one
        cannot be committed, the commit of its batch reports it, and that batch is run again.
        """
        for one, why in self._end(state.transactions, commit=True).items():
            log.debug("%s was ended before: %s", one, why)
        self._abort(orphans(left, state.transactions, spared))

    def _mend(self) -> None:
        """Ends decided transactions of batch writes without a name, whose drivers died or gave up."""
        begin = f"{self.job.prefix}/{UNNAMED}"
        for query, state in self._ledger.states().items():
            if any(one.transactional_id.startswith(begin) for one in state.transactions):
                try:
                    self._end_decided(query, state)
                except BatchLost as error:
                    log.error("%s", error)
                self._ledger.bury(query, *state.past, state.run)

    # -- the driver --------------------------------------------------------------------------------

    def commit(self, term: int, batch: int, written: Collection[PreparedTransaction]) -> None:
        """Decides the batch and ends its transactions. Raises NotDecided, Deposed and BatchLost; after other errors,
        the outcome is unknown.
        """
        job = self.job
        state = self._ledger.state(job.query)
        found = verdict(state, job.query, job.run, term, batch)
        if found is Verdict.DECIDE and written:
            state = self._decide(state, batch, written)
        elif found is Verdict.DECIDE:
            self._sweep(state)
        elif found is Verdict.END:
            self._finish(state)
            self._forget(state)
            self._abort([one for one in written if one not in state.transactions])
        if not job.is_named:
            self._ledger.bury(job.query, job.run)

    def _sweep(self, state: State) -> None:
        """Aborts open transactions of earlier attempts, for a batch without rows, which has no decision."""
        opened = transactions.opened(self._admin, self._begin)
        if self._ledger.state(self.job.query).run == self.job.run:
            self._abort(orphans(opened, state.transactions))

    def _decide(self, state: State, batch: int, written: Collection[PreparedTransaction]) -> State:
        job = self.job
        margin_ms = min(MARGIN_MS, job.timeout_ms // 4)
        opened = transactions.opened(self._admin, self._begin, job.timeout_ms - margin_ms, written)
        self._check_fit(batch, written, opened)
        record = decision(state, job.query, batch, written, job.timeout_ms)
        self._ledger.append(record)
        decided = self._ledger.state(job.query)
        if not is_decided(decided, record):
            raise Deposed(f"query {job.query}, batch {batch}: run {decided.run} has taken over from run {job.run}")
        self._finish(decided)
        self._forget(decided)
        self._abort(orphans(opened, written))
        if not state.has_decided:
            self._ledger.bury(job.query, *state.past)
        return decided

    def _check_fit(
        self, batch: int, written: Collection[PreparedTransaction], opened: list[Opened]
    ) -> None:
        wrong = unfit(written, opened)
        if wrong:
            raise NotDecided(
                f"query {self.job.query}, batch {batch} is not written and can be run again; "
                f"kafka.transaction.timeout.ms={self.job.timeout_ms} must be longer than a batch takes: {_told(wrong)}"
            )

    def _finish(self, state: State) -> None:
        """Ends the decided transactions. If some are lost, failOnDataLoss tells whether to raise."""
        try:
            self._end_decided(self.job.query, state)
        except BatchLost as error:
            if self.job.fails_on_loss:
                raise
            log.error("%s", error)

    def _forget(self, state: State) -> None:
        """Removes the transactions from the batch's record, so that a later start of the query need not ask for them.
        """
        if state.transactions:
            self._ledger.append(decision(state, self.job.query, state.batch, (), state.timeout_ms))

    def _end_decided(self, query: str, state: State) -> None:
        refused = self._end(state.transactions, commit=True)
        gone = lost(refused, transactions.states(self._admin, [one.transactional_id for one in refused]))
        if gone:
            raise BatchLost(
                f"query {query}, batch {state.batch} was decided, but the broker has aborted {len(gone)} of its "
                f"{counted(len(state.transactions), 'transaction')} before they were ended, as a time-out does "
                f"(kafka.transaction.timeout.ms={state.timeout_ms}): their rows are lost. Set failOnDataLoss to false "
                f"to go on without them: {_told(gone)}"
            )

    def abort(self, term: int) -> None:
        """Aborts the undecided transactions of the batch. If another run has taken over, that run has aborted them."""
        state = self._ledger.state(self.job.query)
        if (state.term, state.run) == (term, self.job.run):
            self._take_back(state)

    def abort_own(self) -> None:
        """Like ``abort``, for a batch of which no task has reported a term. Aborts only if this driver knows that the
        run is its own.
        """
        state = self._ledger.state(self.job.query)
        run, driver = self.job.run, self.plan.driver
        if state.run == run if run else driver and state.plan.driver == driver:
            self._take_back(state)

    def _take_back(self, state: State) -> None:
        """Claims the query for no run, unless another run was quicker. Ends decided transactions and aborts all
        others.
        """
        record = withdrawal(state, self.job.query, f"nobody.{uuid4().hex[:8]}")
        found = self._claim(record)
        if found.run != record.run:
            return
        self._abort_late(state)
        if not self.job.is_named:
            self._ledger.bury(record.query, *found.past, found.run)

    def _abort_late(self, state: State) -> None:
        """Aborts the transactions that tasks of the withdrawn run still open while Spark ends them. Nobody can decide
        them any more, and readers of committed records would wait for their time-out.
        """
        begin = transactions.begin_of(self.job.prefix, self.job.query, state.run)
        end = time.monotonic() + LATE_S
        while time.monotonic() < end:
            time.sleep(LATE_S / 10)
            self._abort(orphans(transactions.opened(self._admin, begin), state.transactions))

    # -- ends --------------------------------------------------------------------------------------

    def _end(self, some: Collection[PreparedTransaction], *, commit: bool) -> dict[PreparedTransaction, str]:
        return transactions.end(self._admin, some, commit=commit, timeout_s=END_S)

    def _abort(self, some: Collection[PreparedTransaction]) -> None:
        """Aborts transactions; others may have ended meanwhile."""
        for one, why in self._end(some, commit=False).items():
            log.debug("%s was not aborted: %s", one, why)


UNNAMED: Final = "batch:"
"""The prefix of query names for batch writes without ``writeId``."""


def _told(some: Mapping[PreparedTransaction, str]) -> str:
    return "; ".join(f"{one.transactional_id}: {why}" for one, why in list(some.items())[:5])
