"""The protocol: whatever the order of claims and decisions, a batch is decided once, by one run."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from pyclient.prepared_transaction import PreparedTransaction
from pyclient.spark.sink.exactly_once import (
    NOTHING,
    REMEMBERED,
    Deposed,
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
    replay,
    unfit,
    verdict,
    withdrawal,
)

PLAN = Plan()
A, B, C = (PreparedTransaction(name, 1, 0) for name in "abc")


def after(*records):
    return reduce(replay, records, State())


def claimed(run, term=1):
    return Record("q", run, term)


def decided(run, term, batch, *transactions):
    return Record("q", run, term, batch, transactions)


def test_the_first_claim_of_a_term_wins():
    state = after(claimed("r"), claimed("s"))
    assert (state.run, state.term, state.batch) == ("r", 1, NOTHING)
    assert claim(state, "q", "s", PLAN) == claimed("s", 2)


def test_a_second_claim_of_the_same_run_changes_nothing():
    state = after(claimed("r"), decided("r", 1, 0, A))
    assert replay(state, claimed("r")) == state
    assert claim(state, "q", "r", PLAN) is None


def test_a_claim_keeps_what_the_run_before_has_decided():
    state = after(claimed("r"), decided("r", 1, 4, A), claimed("s", 2))
    assert (state.run, state.batch, state.transactions, state.has_decided) == ("s", 4, (A,), False)


def test_a_decision_of_a_fenced_run_is_ignored():
    state = after(claimed("r"), claimed("s", 2), decided("r", 1, 0, A))
    assert state.batch == NOTHING
    assert not is_decided(state, decided("r", 1, 0, A))
    with pytest.raises(Deposed, match="run s has taken over from run r"):
        verdict(state, "q", "r", 1, 0)


def test_a_late_decision_before_the_claim_is_found_by_the_next_run():
    state = after(claimed("r"), decided("r", 1, 3, A), claimed("s", 2))
    assert verdict(state, "q", "s", 2, 3) is Verdict.END
    assert verdict(state, "q", "s", 2, 4) is Verdict.DECIDE
    assert verdict(state, "q", "s", 2, 2) is Verdict.NOTHING


def test_a_fenced_run_does_not_claim_again():
    state = after(claimed("r"), claimed("s", 2))
    with pytest.raises(Deposed):
        claim(state, "q", "r", PLAN)


def test_a_run_planned_earlier_cannot_claim_after_a_later_one():
    """A task of a dead driver got its slot late. The ledger does not know its run as deposed, because the run has never
    claimed.
    """
    old, new = Plan(1_000, "a"), Plan(2_500, "b")
    state = after(claim(State(), "q", "new", new))
    with pytest.raises(Deposed, match="run new holds it, whose batch was planned 1500 ms after that of run old"):
        claim(state, "q", "old", old)
    decides = replay(state, decision(state, "q", 0, [A], 0))
    with pytest.raises(Deposed):
        claim(decides, "q", "old", old)
    assert claim(decides, "q", "next", Plan(2_500, "b")) is not None


def test_a_withdrawal_replaces_the_run_and_keeps_its_plan():
    state = after(claim(State(), "q", "r", Plan(2_500, "b")))
    taken = replay(state, withdrawal(state, "q", "nobody"))
    assert (taken.run, taken.term, taken.past, taken.plan) == ("nobody", 2, ("r",), Plan(2_500, "b"))
    with pytest.raises(Deposed):
        claim(taken, "q", "old", Plan(1_000, "a"))
    assert claim(taken, "q", "s", Plan(2_600, "b")) is not None


def test_a_withdrawal_after_the_claim_of_another_run_has_no_effect():
    state = after(claimed("r"))
    quicker = replay(state, claimed("s", 2))
    assert replay(quicker, withdrawal(state, "q", "nobody")) == quicker


def test_fenced_runs_are_forgotten_but_cannot_return():
    runs = [f"run {number}" for number in range(REMEMBERED + 2)]
    state = after(*(claimed(run, term) for term, run in enumerate(runs, 1)))
    assert runs[0] not in state.past
    assert runs[1] in state.past
    with pytest.raises(Deposed):
        verdict(state, "q", runs[0], 1, 0)


@pytest.mark.parametrize("late", range(5, 8))
def test_compaction_keeps_the_valid_decision_despite_a_late_one(late):
    """Run s claims, and writes again what r has decided; at any moment after the claim r decides once more."""
    log = [claimed("r"), decided("r", 1, 3, A), decided("r", 1, 4, B), claimed("s", 2)]
    log += [decided("s", 2, 4, B), claimed("t", 3), decided("t", 3, 4, B)]
    log.insert(late - 1, decided("r", 1, 5, C))
    last = {record.run: place for place, record in enumerate(log)}
    compacted = [record for place, record in enumerate(log) if last[record.run] == place]
    assert after(*compacted)[:5] == after(*log)[:5] == (3, "t", True, 4, (B,))


def test_a_compacted_ledger_yields_the_same_state():
    """Compaction keeps the last record of each run. A fenced run may have written after the claim, which is gone."""
    last = decided("s", 2, 4, B)
    whole = after(
        claimed("r"), decided("r", 1, 3, A), claimed("s", 2), decided("r", 1, 4, C), claimed("t", 2), last
    )
    compacted = after(decided("r", 1, 4, C), claimed("t", 2), last)
    assert (whole.run, whole.term, whole.batch, whole.transactions) == ("s", 2, 4, (B,))
    assert compacted[:5] == whole[:5]


def test_the_state_follows_from_the_last_decision_alone():
    state = after(claimed("r"), claimed("s", 2))
    record = decision(state, "q", 7, [A, B], 1000)
    assert replay(State(), record) == replay(state, record)
    assert is_decided(replay(state, record), record)


def test_orphans_are_open_undecided_transactions_of_other_runs():
    mine = PreparedTransaction("p/q/r/1", 2, 0)
    opened = [Opened(one) for one in (A, B, mine)]
    assert orphans(opened, [A], "p/q/r/") == [B]
    assert orphans(opened, [A]) == [B, mine]


def test_a_later_transaction_of_a_decided_name_is_an_orphan():
    later = A._replace(epoch=A.epoch + 1)
    assert orphans([Opened(later)], [A]) == [later]


def test_a_transaction_that_is_closed_or_about_to_expire_cannot_be_decided():
    wrong = unfit([A, B, C], [Opened(A), Opened(B, is_old=True), Opened(C._replace(epoch=3))])
    assert set(wrong) == {B, C}
    assert "so little of its transaction.timeout.ms is left" in wrong[B]
    assert "has ended it" in wrong[C]


def test_a_refused_commit_is_a_loss_unless_the_transaction_is_committed():
    refused = {A: "fenced", B: "fenced", C: "fenced"}
    assert set(lost(refused, {"a": "CompleteCommit", "b": "CompleteAbort"})) == {B, C}
    assert lost(refused, dict.fromkeys("abc", "PrepareCommit")) == {}


class Run:
    """A driver and its tasks. They read the ledger, append the record that follows from it some time later, and read
    again.
    """

    def __init__(self, name):
        self.name = name
        self.batch = 0
        self.planned = self.appended = None
        self.dead = False

    def step(self, log, ended):
        """Reads the ledger once, or appends one record."""
        if self.planned is not None:
            log.append(self.planned)
            self.planned, self.appended = None, self.planned
            return
        try:
            self.look(reduce(replay, log, State()), ended)
        except Deposed:
            self.dead = True

    def look(self, state, ended):
        record, self.appended = self.appended, None
        if record is not None and record.decides:
            if not is_decided(state, record):
                raise Deposed
            ended.append((self.name, self.batch))
            self.batch += 1
            return
        self.planned = claim(state, "q", self.name, PLAN)
        if self.planned is not None:
            return
        if verdict(state, "q", self.name, state.term, self.batch) is Verdict.DECIDE:
            mine = PreparedTransaction(f"{self.name}/{self.batch}", 1, 0)
            self.planned = decision(state, "q", self.batch, [mine], 0)
        else:
            self.batch = state.batch + 1


@pytest.mark.parametrize("seed", range(300))
def test_every_batch_is_decided_once_in_any_order_of_events(seed):
    """Runs start, are thought dead and continue. The ledger must agree with what each run has committed."""
    lots = random.Random(seed)
    log, ended, runs = [], [], [Run("run 0")]
    for _ in range(120):
        if lots.random() < 0.05:
            runs.append(Run(f"run {len(runs)}"))
        run = lots.choice(runs[-3:])
        if not run.dead:
            run.step(log, ended)
    accepted, state = {}, State()
    for record in log:
        state = replay(state, record)
        if record.decides and is_decided(state, record):
            assert record.batch not in accepted, f"batch {record.batch} was decided twice"
            accepted[record.batch] = record.run
    assert sorted(accepted) == list(range(len(accepted)))
    for run, batch in ended:
        assert accepted[batch] == run
