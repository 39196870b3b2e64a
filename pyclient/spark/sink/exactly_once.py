"""The protocol of exactly once. It makes decisions and does no I/O; ``commits`` calls it, and ``ledger`` is its log.

Spark runs a batch as tasks, then calls ``commit`` on the driver. If the driver dies, Spark runs the batch again with
the same number until a ``commit`` of it returns. So exactly one of these runs must write the batch, as a whole.

**Commit point.** A task writes its rows in its own Kafka transaction and leaves it open. Its message to the driver
names the transaction (id, producer id, epoch). ``commit`` appends a *decision* to the ledger: query, batch, these
transactions. From then on the batch is written, whatever happens; ending the transactions only makes it visible. Before
the decision the batch is not written, and all open transactions may be aborted. A run that finds its batch decided
writes nothing and ends the decision's transactions once more. When they have ended, the decision is written again
without them. Brokers forget transactional ids, so otherwise a later run could take the batch for lost.

**The ledger** is a compacted topic of one partition, and a state machine. ``replay`` applies its records in the order
of the log, so every reader comes to the same ``State``. After appending a record, the writer reads on until it sees
the effect of its record. There is no lock: a record that comes too late is ignored.

**Terms.** Two drivers may work on one query: one that was thought dead, and its successor. Each run of a query (Spark's
run id) *claims* the query before it writes anything. The first of its tasks appends a claim with the next term. Only
decisions in the term of the last claim count. A deposed run cannot claim again. A new run can take the claim only from
a run whose batch was planned before its own (``Plan``). Otherwise a task of a dead driver that had waited for its slot
would depose the driver that came after it. The time of a plan comes from its driver's clock. If the clocks of two
drivers differ, the later driver may be refused for as long as that difference.

**Names.** ``prefix/query/run/process-n``. A transactional id belongs to one Python process of one run. Only that
process ever requests the id's producer id, because the request would abort an open transaction. The process uses the
name again in a later batch of that run, that is, after ``commit`` of the previous batch has returned. So no attempt,
however late, can meet a transaction that another one has opened: late attempts open their own transactions.

The rest depends on these invariants:

1. *A transaction of run R begins after R's claim is in the log.* So transactions of other runs that are open before a
   claim is appended will not be decided later. The writer of the claim ends those that the last decision names, and
   aborts the others (``orphans``). Open transactions of a killed driver hold back all readers of committed records;
   this removes them as soon as the query runs again.
2. *The batches of a run come one after the other.* So transactions that are open before the decision of batch N, and
   not in it, will never be decided. Their attempts failed, lost a race, or came late. The driver lists them before it
   decides and aborts them afterwards.
3. *A decision names only transactions that are open* and have time left (``unfit``). If a broker has aborted one by its
   time-out, the commit fails before anything is decided, and the batch is run again.
4. *An end is exact*: EndTxn names producer id and epoch. So it cannot end a later transaction of that id, and can be
   repeated if the answer was lost. If an end is refused, the transaction is checked. Unless it is known to be
   committed, rows of a decided batch are lost. This is an error (``lost``), never silent. It can happen only if a
   driver died between decision and end and was away for longer than ``transaction.timeout.ms``.
5. *A failed commit is withdrawn by a claim of no run*. So an append without an answer cannot decide later what
   ``abort`` is about to abort. It is one claim, for the term after the driver's own; if another run was quicker, it
   does not count. A driver that no task has told of its run withdraws only what its own JVM has planned. If it does not
   know that, it withdraws nothing. Spark ends the tasks of a batch while the batch is withdrawn, so tasks may open
   transactions after that claim. The driver looks for them for as long as Spark lets the tasks live. Later ones are
   left to the next start.

Compaction keeps the last record of each (query, run). A decision carries the whole state, so a claim before it may be
removed. The last record of a deposed run may be a decision that came too late, while the one that counts is gone. So a
run whose claim counts writes the last decision again as its own (``Commits._confirm``), and buries the earlier runs
only after that. In one term only the run that holds it decides, so a decision takes precedence over a claim.

The ledger identifies a query by its id alone. The prefix is only in the names of transactions. With another prefix no
decision is forgotten, but transactions left open under the old prefix are not found.

Batch writes are queries of one batch. Without ``writeId`` the query's name is new each time, and its record is buried
when all transactions have ended. If the driver dies between decision and end, the next batch write with the same
prefix ends the transactions. If it dies before the decision, brokers abort them after ``transaction.timeout.ms``. With
a ``writeId``, a repeated run aborts them at once, and writes nothing if an earlier run was decided.
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
"""The number of runs that are remembered as deposed; older ones are deposed by their terms."""


class Deposed(ClientError):
    """Raised if another run of the same query has taken over."""

    name = "DEPOSED"


class BatchLost(ClientError):
    """Rows of a decided batch are not in the topic. The text has the reason."""

    name = "BATCH_LOST"


class NotDecided(ClientError):
    """Raised if the batch was not written, and no reader will see any of it: it can be run again."""

    name = "NOT_DECIDED"


class Plan(NamedTuple):
    """When and where a run planned the batch with which it claims."""

    at_ms: int = 0
    """Milliseconds since 1970, by the driver's clock."""
    driver: str = ""
    """The driver's JVM; empty if unknown."""


class Record(msgspec.Struct, frozen=True):
    """One record of the ledger. It is a claim if ``batch`` is ``NOTHING``, otherwise a decision."""

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
        """True if this is a decision."""
        return self.batch != NOTHING


class State(NamedTuple):
    """The state of a query: the run that may write it, and the last decided batch."""

    term: int = 0
    run: str = ""
    has_decided: bool = False
    """True if the run has decided a batch in this term."""
    batch: int = NOTHING
    transactions: tuple[PreparedTransaction, ...] = ()
    past: tuple[str, ...] = ()
    timeout_ms: int = 0
    plan: Plan = Plan()
    """The plan of the run that holds the query."""


def replay(state: State, record: Record) -> State:
    """Returns the state after ``record``. If the record does not count, returns the same state."""
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
    """Returns the claim that ``run`` must append before it writes; None if it may write already. Raises Deposed."""
    if state.run == run:
        return None
    if run in state.past:
        raise Deposed(f"query {query}: run {state.run} has taken over from run {run}")
    later_ms = state.plan.at_ms - plan.at_ms
    if later_ms > 0:
        raise Deposed(
            f"query {query}: run {state.run} holds it, whose batch was planned {later_ms} ms after that of run "
            f"{run}. If that is wrong, the drivers' clocks differ by that much: start the query again later"
        )
    return Record(query, run, state.term + 1, plan=plan)


def withdrawal(state: State, query: str, name: str) -> Record:
    """Returns a claim of no run, which withdraws what the state's run has not decided."""
    return Record(query, name, state.term + 1, plan=state.plan)


class Verdict(Enum):
    """The action that a commit must take."""

    DECIDE = "nothing is decided yet"
    END = "an earlier run has decided the batch: its transactions are ended again"
    NOTHING = "later batches are decided already"


def verdict(state: State, query: str, run: str, term: int, batch: int) -> Verdict:
    """Returns the action that a commit of ``batch`` must take. Raises Deposed."""
    if (state.term, state.run) != (term, run):
        raise Deposed(f"query {query}, batch {batch}: run {state.run} has taken over from run {run}")
    if state.batch == batch:
        return Verdict.END
    return Verdict.NOTHING if state.batch > batch else Verdict.DECIDE


def decision(
    state: State, query: str, batch: int, transactions: Collection[PreparedTransaction], timeout_ms: int
) -> Record:
    """Returns the record that decides a batch."""
    return Record(query, state.run, state.term, batch, tuple(transactions), state.past, timeout_ms, state.plan)


def is_decided(state: State, record: Record) -> bool:
    """Returns whether this decision is the one that counts."""
    return (state.term, state.run, state.batch) == (record.term, record.run, record.batch) and (
        state.transactions == record.transactions
    )


class Opened(NamedTuple):
    """An open transaction, according to its coordinator."""

    transaction: PreparedTransaction
    is_old: bool = False
    """True if the transaction is too near its timeout to be decided, by the clock of its coordinator."""


def orphans(
    opened: Iterable[Opened], decided: Collection[PreparedTransaction], spared: str = ""
) -> list[PreparedTransaction]:
    """Returns the transactions to abort among those open before a claim or decision, except ids that begin with
    ``spared``.
    """
    keep = set(decided)
    return [
        one.transaction
        for one in opened
        if one.transaction not in keep and not (spared and one.transaction.transactional_id.startswith(spared))
    ]


def unfit(transactions: Iterable[PreparedTransaction], opened: Iterable[Opened]) -> dict[PreparedTransaction, str]:
    """Returns the transactions that must not be decided, each with the reason."""
    old = {one.transaction: one.is_old for one in opened}
    wrong = {}
    for one in transactions:
        if one not in old:
            wrong[one] = "the broker has ended it, by transaction.timeout.ms or because it was fenced"
        elif old[one]:
            wrong[one] = "so little of its transaction.timeout.ms is left that its end may come too late"
    return wrong


def lost(refused: Mapping[PreparedTransaction, str], states: Mapping[str, str]) -> dict[PreparedTransaction, str]:
    """Returns the decided transactions that are not committed, with the reasons, among those whose end was refused.

    ``states`` has the coordinators' state of each transactional id. No id is used again before ``commit`` of the batch
    has returned, so the state is that of this very transaction.
    """
    return {
        one: f"{why} (state: {states.get(one.transactional_id, 'unknown')})"
        for one, why in refused.items()
        if "Commit" not in states.get(one.transactional_id, "")
    }
