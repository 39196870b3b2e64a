"""Exactly once: the protocol. It decides and does no I/O; ``commits`` asks it, ``ledger`` is its log.

Spark runs a batch as tasks, then calls ``commit`` on the driver. If the driver dies, the batch is run again with
the same number until a ``commit`` of it returned. So a batch must be written by one of its runs, wholly.

**Commit point.** A task writes its rows in a Kafka transaction of its own and leaves it open; its message to the
driver names it (id, producer id, epoch). ``commit`` appends a *decision* to the ledger: query, batch, these
transactions. From then on the batch is written, whatever happens; ending the transactions only shows it. Before,
it is not, and everything open may be aborted. A run that finds its batch decided writes nothing: it ends the
decision's transactions once more. When they have ended the decision is written again without them: brokers forget
transactional ids, and a run that comes after that must not take the batch for lost.

**The ledger** is a topic of one partition, compacted, and a state machine: ``replay`` applies records in the order
of the log, and every reader comes to the same ``State``. Whoever appends a record reads on until it is seen what
became of it. Nobody is locked out; who comes too late finds its record ignored.

**Terms.** Two drivers may work on one query: one that was thought dead, and its successor. Each run of a query
(Spark's run id) *claims* it before it writes anything: the first of its tasks to come appends a claim with the
next term. Decisions count in the term of the last claim only. A run that was deposed cannot claim again, and one
that comes for the first time only from a run whose batch was planned before its own (``Plan``): else a task of a
dead driver, that had waited for its slot, would depose the driver that came after it. When a batch was planned its
driver's clock says; of two drivers whose clocks differ, the later one may be refused for as long as they differ.

**Names.** ``prefix/query/run/process-n``. A transactional id belongs to one Python process of one run, and only
that process ever asks for its producer id (which would abort what is open under it). It uses the name again in a
later batch of that run, that is, after ``commit`` of the batch before has returned. So no attempt, however late,
can meet a transaction that another one has opened: late attempts open transactions of their own.

Invariants, on which the rest stands:

1. *A transaction of run R begins after R's claim is in the log.* Therefore what is open, of other runs, before a
   claim was appended will not be decided any more unless it has been: the claim's writer ends what the last
   decision names, and aborts the rest (``orphans``). That is how the open transactions of a killed driver, which
   hold back all readers of committed records, go as soon as the query runs again.
2. *The batches of a run come one after the other.* Therefore what is open before the decision of batch N, and not
   in it, will never be decided: attempts that failed, lost a race, or came late. The driver lists before it decides
   and aborts afterwards.
3. *A decision names only transactions that are open* and have time left (``unfit``): a broker that has aborted one
   by its time-out makes the commit fail before anything is decided, and the batch is run again.
4. *An end is exact*: EndTxn names producer id and epoch, so it can hit no later transaction of that id, and can be
   sent again after an answer was lost. One that is refused is looked at: if the transaction is not known to be
   committed, rows of a decided batch are lost, which is an error (``lost``), never silence. That takes a driver that
   died between decision and end and was away for longer than ``transaction.timeout.ms``.
5. *A failed commit is taken back by a claim* in the name of nobody, so that an append of which no answer came
   cannot decide afterwards what ``abort`` is about to abort. It is one claim, for the term after that in which the
   driver has found itself: where another run was quicker it does not count. A driver that no task has told
   anything of its run takes back only what its own JVM has planned, and where it does not know, nothing. Spark
   ends the tasks of a batch while it is taken back, so they may open transactions after that claim: the driver
   looks for them for as long as Spark lets them live. What comes later still is for the next start.

Compaction keeps the last record of each (query, run). A decision carries the whole state, so a claim before it may
go. Of a deposed run that last record may be a decision that came too late, and the one that counts be gone; so a run
whose claim counts writes the last decision again as its own (``Commits._confirm``), and buries the runs before only
then. Of one term only the run that holds it decides, so a decision counts more than a claim.

The ledger knows a query by its id alone. The prefix is only in the names of transactions: another one forgets no
decision, but does not find what was left open under the old one.

Batch writes are queries of one batch. Without ``writeId`` the query's name is new each time; its record is buried
when everything has ended. If the driver dies between decision and end, the next batch write with the same prefix
ends it; what it has left open before the decision is aborted by the brokers after ``transaction.timeout.ms``. With
a ``writeId`` a run that is repeated aborts it at once, and writes nothing if an earlier one was decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from pyclient.errors import ClientError
from pyclient.prepared_transaction import PreparedTransaction

NOTHING: Final = -1
REMEMBERED: Final = 32
"""Runs that are known to be deposed; older ones would be deposed by their terms."""


class Deposed(ClientError):
    """Another run of the same query has taken over."""

    name = "DEPOSED"


class BatchLost(ClientError):
    """Rows of a batch that counts as written are not in the topic; the text says why."""

    name = "BATCH_LOST"


class NotDecided(ClientError):
    """The batch was not written, and nothing of it will be seen: it can be run again."""

    name = "NOT_DECIDED"


class Plan(NamedTuple):
    """Where and when a run has planned the batch with which it claims."""

    at_ms: int = 0
    """Since 1970, by the driver's clock."""
    driver: str = ""
    """Its JVM; empty where that is not known."""


class Record(msgspec.Struct, frozen=True):
    """One record of the ledger: a claim, or where ``batch`` is not ``NOTHING`` a decision."""

    query: str
    run: str
    term: int
    batch: int = NOTHING
    transactions: tuple[PreparedTransaction, ...] = ()
    past: tuple[str, ...] = ()
    timeout_ms: int = 0
    """transaction.timeout.ms, for the text of an error."""
    plan: Plan = Plan()

    @property
    def decides(self) -> bool:
        """A decision."""
        return self.batch != NOTHING


class State(NamedTuple):
    """Of a query: who may write it, and the last batch that was decided."""

    term: int = 0
    run: str = ""
    has_decided: bool = False
    """In this term."""
    batch: int = NOTHING
    transactions: tuple[PreparedTransaction, ...] = ()
    past: tuple[str, ...] = ()
    timeout_ms: int = 0
    plan: Plan = Plan()
    """Of the run that holds it."""


def replay(state: State, record: Record) -> State:
    """The state after a record; the same state where it does not count."""
    if record.decides:
        holds = record.term > state.term or record.run == state.run or not state.has_decided
        if record.term < state.term or not holds:
            return state
        rest = (record.batch, record.transactions, record.past, record.timeout_ms, record.plan)
        return State(record.term, record.run, True, *rest)
    if record.term <= state.term:
        return state
    past = (*state.past, state.run)[-REMEMBERED:] if state.run else state.past
    return state._replace(term=record.term, run=record.run, has_decided=False, past=past, plan=record.plan)


def claim(state: State, query: str, run: str, plan: Plan) -> Record | None:
    """What ``run`` has to append before it writes; None where it may write. Raises Deposed."""
    if state.run == run:
        return None
    if run in state.past:
        raise Deposed(f"query {query}: run {state.run} has taken over from run {run}")
    later_ms = state.plan.at_ms - plan.at_ms
    if later_ms > 0:
        raise Deposed(
            f"query {query}: run {state.run} has it, whose batch was planned {later_ms} ms after this one of run "
            f"{run}. If it was not, the clocks of the drivers differ by as much: start the query again then"
        )
    return Record(query, run, state.term + 1, plan=plan)


def withdrawal(state: State, query: str, name: str) -> Record:
    """The claim in the name of nobody that takes back what the state's run has not decided."""
    return Record(query, name, state.term + 1, plan=state.plan)


class Verdict(Enum):
    """What a commit has to do."""

    DECIDE = "nothing is decided yet"
    END = "an earlier run has decided the batch: its transactions are ended again"
    NOTHING = "later batches are decided already"


def verdict(state: State, query: str, run: str, term: int, batch: int) -> Verdict:
    """What a commit of ``batch`` has to do. Raises Deposed."""
    if (state.term, state.run) != (term, run):
        raise Deposed(f"query {query}, batch {batch}: run {state.run} has taken over from run {run}")
    if state.batch == batch:
        return Verdict.END
    return Verdict.NOTHING if state.batch > batch else Verdict.DECIDE


def decision(
    state: State, query: str, batch: int, transactions: Collection[PreparedTransaction], timeout_ms: int
) -> Record:
    """The record that decides a batch."""
    return Record(query, state.run, state.term, batch, tuple(transactions), state.past, timeout_ms, state.plan)


def is_decided(state: State, record: Record) -> bool:
    """Whether this decision is the one that counts."""
    return (state.term, state.run, state.batch) == (record.term, record.run, record.batch) and (
        state.transactions == record.transactions
    )


class Opened(NamedTuple):
    """A transaction that its coordinator holds open."""

    transaction: PreparedTransaction
    is_old: bool = False
    """By its coordinator's clock so little of its time is left that it must not be decided."""


def orphans(
    opened: Iterable[Opened], decided: Collection[PreparedTransaction], spared: str = ""
) -> list[PreparedTransaction]:
    """What is to be aborted of that which was open before a claim or decision, but for those ids that begin so."""
    keep = set(decided)
    return [
        one.transaction
        for one in opened
        if one.transaction not in keep and not (spared and one.transaction.transactional_id.startswith(spared))
    ]


def unfit(transactions: Iterable[PreparedTransaction], opened: Iterable[Opened]) -> dict[PreparedTransaction, str]:
    """Why some of these must not be decided."""
    old = {one.transaction: one.is_old for one in opened}
    wrong = {}
    for one in transactions:
        if one not in old:
            wrong[one] = "the broker has ended it, by transaction.timeout.ms or because it was fenced"
        elif old[one]:
            wrong[one] = "so little of its transaction.timeout.ms is left that its end may come too late"
    return wrong


def lost(refused: Mapping[PreparedTransaction, str], states: Mapping[str, str]) -> dict[PreparedTransaction, str]:
    """Which of a decision's transactions, whose end was refused, are not committed, and what was said of each.

    ``states``: of each transactional id, as its coordinator tells. Until ``commit`` of the batch has returned no
    name of it is used again, so the state is that of this very transaction.
    """
    return {
        one: f"{why} (state: {states.get(one.transactional_id, 'unknown')})"
        for one, why in refused.items()
        if "Commit" not in states.get(one.transactional_id, "")
    }
