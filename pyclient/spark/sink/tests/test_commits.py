"""Runs of a query with a real ledger and real transactions: a task is ``write``, a driver is ``Commits``."""

from __future__ import annotations

import json
import time
from functools import reduce

import pytest
from pyspark.sql.types import StructType

from pyclient import Admin, Consumer, Producer, TopicPartition
from pyclient.errors import RequestTimedOut
from pyclient.spark.sink import transactions
from pyclient.spark.sink.commits import UNNAMED, Commits, Job
from pyclient.spark.sink.exactly_once import BatchLost, Deposed, NotDecided, Plan, Record, State, replay
from pyclient.spark.sink.writer import stream_writer
from pyclient.tests.brokers import broker, unique  # noqa: F401
from pyclient.tests.support import PATIENCE_S, read_all, until

LEDGER = "ledger-of-tests"
PLAN = Plan(1_000)


@pytest.fixture
def topic(broker):  # noqa: F811
    name = unique("topic")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(name, num_partitions=1)
    return name


class Query:
    """One query, whose runs share its name."""

    def __init__(self, bootstrap, topic, name=None, timeout_ms=60_000):
        self.bootstrap, self.topic, self.timeout_ms = bootstrap, topic, timeout_ms
        self.name = name or unique("query")

    def job(self, run, named=True, fails=True, prefix="test"):
        client = (("bootstrap.servers", self.bootstrap),)
        return Job(client, LEDGER, prefix, self.name, run, self.timeout_ms, named, fails)

    def run(self, run, plan=PLAN, **settings):
        return Commits(self.job(run, **settings), plan)

    def write(self, run, *values):
        name = transactions.Names("test", self.name, run).take(0)
        settings = {"transactional_id": name, "transaction_timeout_ms": self.timeout_ms}
        with Producer(self.bootstrap, **settings) as producer:
            producer.begin_transaction()
            producer.send_many(self.topic, list(values))
            return producer.prepare_transaction()

    def seen(self):
        """Returns the values that readers of committed records see once no transaction is open."""
        place = TopicPartition(self.topic, 0)
        with Consumer(self.bootstrap) as every, Consumer(self.bootstrap, isolation_level="read_committed") as stable:
            until(lambda: every.end_offsets([place]) == stable.end_offsets([place]), "the end of all transactions")
        records = read_all(self.bootstrap, self.topic, isolation_level="read_committed")
        return [bytes(record.value) for record in records]

    def opened(self):
        with Admin(self.bootstrap) as admin:
            return [one.transaction for one in transactions.opened(admin, transactions.begin_of("test", self.name))]


@pytest.fixture
def query(broker, topic):  # noqa: F811
    return Query(broker.bootstrap, topic)


def test_a_batch_is_visible_after_its_commit_and_a_repeated_commit_adds_nothing(query):
    with query.run("r1") as run:
        term = run.join().term
        written = [query.write("r1", b"a"), query.write("r1", b"b")]
        run.commit(term, 0, written)
        run.commit(term, 0, [])
    assert sorted(query.seen()) == [b"a", b"b"]


def test_a_commit_aborts_the_attempts_that_lost(query):
    with query.run("r1") as run:
        term = run.join().term
        lost, written = query.write("r1", b"twice"), query.write("r1", b"once")
        run.commit(term, 0, [written])
        assert lost not in query.opened()
    assert query.seen() == [b"once"]


def test_the_next_run_aborts_at_once_the_transactions_of_a_killed_one(query):
    with query.run("r1") as run:
        run.join()
        query.write("r1", b"gone")
    with query.run("r2") as run:
        assert run.join().batch == -1
        assert query.opened() == []
    assert query.seen() == []


def test_the_next_run_commits_a_decided_batch_and_does_not_write_it_again(query, monkeypatch):
    with query.run("r1") as run:
        term = run.join().term
        written = [query.write("r1", b"a"), query.write("r1", b"b")]
        monkeypatch.setattr(run, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run.commit(term, 5, written)
    assert len(query.opened()) == 2
    with query.run("r2") as run:
        state = run.join()
        assert state.batch == 5
        assert sorted(query.seen()) == [b"a", b"b"]
        run.commit(state.term, 5, [])
    assert sorted(query.seen()) == [b"a", b"b"]


def killed(*_):
    raise KeyboardInterrupt


def test_a_fenced_driver_cannot_commit_or_abort(query):
    with query.run("old") as old, query.run("new") as new:
        old_term = old.join().term
        late = query.write("old", b"late")
        new_term = new.join().term
        with pytest.raises(Deposed):
            old.commit(old_term, 0, [late])
        old.abort(old_term)
        new.commit(new_term, 0, [query.write("new", b"once")])
        with pytest.raises(Deposed):
            old.join()
    assert query.seen() == [b"once"]


def test_a_late_decision_of_a_fenced_run_is_not_committed(query, monkeypatch):
    """The decision was in flight when the other run claimed."""
    with query.run("old") as old, query.run("new") as new:
        old_term = old.join().term
        late = query.write("old", b"late")
        append = old._ledger.append

        def after_the_claim(record):
            new.join()
            append(record)

        monkeypatch.setattr(old._ledger, "append", after_the_claim)
        with pytest.raises(Deposed):
            old.commit(old_term, 0, [late])
    assert query.seen() == []


def test_a_failed_batch_is_aborted(query):
    with query.run("r1") as run:
        term = run.join().term
        query.write("r1", b"gone")
        run.abort(term)
        assert query.opened() == []
        with pytest.raises(Deposed):
            run.commit(term, 0, [])
    assert query.seen() == []


def test_a_transaction_opened_while_its_batch_is_aborted_is_aborted_too(query, monkeypatch):
    """Spark ends tasks and takes their batch back at the same time."""
    with query.run("r1") as run:
        term = run.join().term
        put_in_order = run._put_in_order

        def and_a_task_goes_on(*arguments):
            put_in_order(*arguments)
            query.write("r1", b"late")

        monkeypatch.setattr(run, "_put_in_order", and_a_task_goes_on)
        run.abort(term)
        assert query.opened() == []
    assert query.seen() == []


def kept(run, query):
    """Returns the runs of the query whose record remains after compaction of the ledger."""
    last = {(name, of): record for name, of, record in run._ledger._records(*run._ledger._bounds())}
    return {of for (name, of), record in last.items() if name == query.name and record is not None}


def test_a_late_task_of_a_dead_driver_does_not_fence_the_new_driver(query):
    with query.run("late", Plan(1_000)) as late, query.run("new", Plan(2_000)) as new:
        term = new.join().term
        written = query.write("new", b"once")
        with pytest.raises(Deposed, match="planned 1000 ms after"):
            late.join()
        new.commit(term, 0, [written])
    assert query.seen() == [b"once"]


def test_a_driver_without_messages_from_tasks_aborts_only_its_own_batch(query, tmp_path, monkeypatch):
    """Driver a hung, b has taken over; then a wakes and its stage is cancelled."""
    (tmp_path / "metadata").write_text(json.dumps({"id": query.name}))
    options = {
        "kafka.bootstrap.servers": query.bootstrap, "topic": query.topic, "delivery": "exactly-once",
        "ledgerTopic": LEDGER, "transactionalIdPrefix": "test", "checkpointLocation": str(tmp_path),
    }
    schema = StructType().add("value", "string")
    with query.run("of b", Plan(2_000, "driver b")) as run:
        term = run.join().term
        written = query.write("of b", b"once")
        for other in ("driver a", ""):
            monkeypatch.setattr("pyclient.spark.sink.writer.driver", lambda other=other: other)
            stream_writer(options, schema, False).abort([], 0)
        run.commit(term, 0, [written])
        query.write("of b", b"gone")
        monkeypatch.setattr("pyclient.spark.sink.writer.driver", lambda: "driver b")
        stream_writer(options, schema, False).abort([], 1)
        assert query.opened() == []
    assert query.seen() == [b"once"]


def test_a_batch_without_rows_aborts_the_open_transactions_of_its_attempts(query):
    with query.run("r") as run:
        term = run.join().term
        query.write("r", b"gone")
        run.commit(term, 0, [])
        assert query.opened() == []
    assert query.seen() == []


def test_transactional_ids_of_earlier_runs_are_forgotten_after_a_decision(query):
    with query.run("r1") as run:
        term = run.join().term
        run.commit(term, 0, [query.write("r1", b"a")])
        run.abort(term)
    with query.run("r2") as run:
        run.commit(run.join().term, 1, [query.write("r2", b"b")])
        assert kept(run, query) == {"r2"}


def test_a_failed_batch_write_without_a_name_leaves_no_transactional_id(broker, topic):  # noqa: F811
    query = Query(broker.bootstrap, topic, UNNAMED + unique("write"))
    with query.run("r", named=False) as run:
        term = run.join().term
        query.write("r", b"gone")
        run.abort(term)
        assert kept(run, query) == set()
    assert query.seen() == []


def test_decided_batches_are_found_under_another_transactional_id_prefix(query):
    with query.run("r1") as run:
        run.commit(run.join().term, 3, [query.write("r1", b"once")])
    with query.run("r2", prefix="another") as run:
        assert run.join().batch == 3


def test_a_driver_whose_clock_is_ahead_can_decide(query, monkeypatch):
    ahead_s = 10 * query.timeout_ms / 1000
    with query.run("r") as run:
        term = run.join().term
        written = query.write("r", b"once")
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + ahead_s)
        run.commit(term, 0, [written])
    assert query.seen() == [b"once"]


def test_the_age_of_a_transaction_is_measured_by_its_coordinator(query):
    query.write("r", b"gone")
    begin = transactions.begin_of("test", query.name)
    with Admin(query.bootstrap) as admin:
        until(lambda: [one.is_old for one in transactions.opened(admin, begin, 1)] == [True], "a millisecond")
        assert [one.is_old for one in transactions.opened(admin, begin, query.timeout_ms)] == [False]


def test_a_decided_batch_is_not_aborted(query, monkeypatch):
    with query.run("r1") as run:
        term = run.join().term
        monkeypatch.setattr(run, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run.commit(term, 0, [query.write("r1", b"once")])
        run.abort(term)
    assert query.seen() == [b"once"]


def test_a_transaction_that_the_broker_has_ended_is_not_decided(query):
    with query.run("r1") as run:
        term = run.join().term
        written = query.write("r1", b"a")
        with Admin(query.bootstrap) as admin:
            transactions.end(admin, [written], commit=False, timeout_s=PATIENCE_S)
        with pytest.raises(NotDecided, match="the broker has ended it"):
            run.commit(term, 0, [written])


def test_the_error_of_a_timed_out_decided_transaction_says_so(query, monkeypatch):
    with query.run("r1") as run:
        term = run.join().term
        written = query.write("r1", b"a")
        monkeypatch.setattr(run, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run.commit(term, 0, [written])
    with Admin(query.bootstrap) as admin:
        admin.fence_producers(written.transactional_id)
        transactions.end(admin, [written], commit=True, timeout_s=PATIENCE_S)
    with query.run("r2") as run:
        state = run.join()
        with pytest.raises(BatchLost, match=r"kafka.transaction.timeout.ms=60000\): their rows are lost"):
            run.commit(state.term, 0, [])
    with query.run("r3", fails=False) as run:
        run.commit(run.join().term, 0, [])


def test_a_committed_batch_is_not_lost_if_its_producer_is_fenced(query):
    with query.run("r1") as run:
        written = query.write("r1", b"a")
        run.commit(run.join().term, 0, [written])
    with Admin(query.bootstrap) as admin:
        admin.fence_producers(written.transactional_id)
    with query.run("r2") as run:
        state = run.join()
        assert (state.batch, state.transactions) == (0, ())
        run.commit(state.term, 0, [query.write("r2", b"a")])
    assert query.seen() == [b"a"]
    assert query.opened() == []


def test_two_queries_do_not_disturb_each_other(query):
    other = Query(query.bootstrap, query.topic)
    with query.run("r") as run, other.run("r") as second:
        term = run.join().term
        written = query.write("r", b"mine")
        second_term = second.join().term
        second.commit(second_term, 0, [other.write("r", b"theirs")])
        run.commit(term, 0, [written])
    assert sorted(query.seen()) == [b"mine", b"theirs"]


def test_the_next_driver_finishes_the_commit_of_a_batch_write(broker, topic, monkeypatch):  # noqa: F811
    first, second = (Query(broker.bootstrap, topic, UNNAMED + unique("write")) for _ in range(2))
    with first.run("r", named=False) as run:
        term = run.join().term
        monkeypatch.setattr(run, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run.commit(term, 0, [first.write("r", b"a")])
    with second.run("r", named=False) as run:
        term = run.join().term
        assert first.seen() == [b"a"]
        run.commit(term, 0, [second.write("r", b"b")])
        assert not {first.name, second.name} & set(run._ledger.states())
    assert first.seen() == [b"a", b"b"]


def test_the_next_driver_commits_a_decided_batch_write_that_failed_to_end(
    broker, topic, monkeypatch  # noqa: F811
):
    first, second = (Query(broker.bootstrap, topic, UNNAMED + unique("write")) for _ in range(2))
    with first.run("r", named=False) as run:
        term = run.join().term
        monkeypatch.setattr(run, "_end", timed_out)
        with pytest.raises(RequestTimedOut):
            run.commit(term, 0, [first.write("r", b"a")])
        with pytest.raises(RequestTimedOut):
            run.abort(term)
    with second.run("r", named=False) as run:
        run.join()
        assert first.seen() == [b"a"]
        assert kept(run, first) == set()


def timed_out(*_, **__):
    raise RequestTimedOut("the coordinator is away")


def test_the_whole_ledger_is_read_once(query, monkeypatch):
    with query.run("r") as run:
        term = run.join().term
        for batch in range(4):
            run.commit(term, batch, [query.write("r", b"%d" % batch)])
        run._ledger.state(query.name)
        end = run._ledger._bounds()[1]
        asked = []
        records = run._ledger._records
        monkeypatch.setattr(run._ledger, "_records", lambda *where: asked.append(where[:2]) or records(*where))
        assert run._ledger.state(query.name).batch == 3
        assert asked == [(end, end)]
    assert query.seen() == [b"0", b"1", b"2", b"3"]


def test_a_driver_fenced_long_ago_learns_that_its_decision_is_void(query):
    """Whatever others have written to the ledger between the claim that deposed it and its decision."""
    query.timeout_ms = 10_000  # nobody but the broker ends what it has left open
    with query.run("r") as late:
        term = late.join().term
        written = query.write("r", b"late")
        append = late._ledger.append

        def after_others(record):
            with query.run("s") as run:
                run.commit(run.join().term, 0, [query.write("s", b"once")])
            for number in range(200):
                append(Record(f"of another {number}", "x", 1))
            append(record)

        late._ledger.append = after_others
        with pytest.raises(Deposed):
            late.commit(term, 0, [written])
    with query.run("r") as again:
        with pytest.raises(Deposed):
            again.commit(term, 1, [query.write("r", b"later")])
        again.abort(term)
        assert again._ledger.state(query.name).run == "s"
    assert query.seen() == [b"once"]


def test_a_claim_repeats_the_last_decision(query):
    """The decision of r that counts may be compacted away in favour of one that came too late."""
    with query.run("r") as run:
        run.commit(run.join().term, 0, [query.write("r", b"once")])
    with query.run("s") as run:
        run.join()
        assert kept(run, query) == {"s"}
        run._ledger.append(Record(query.name, "r", 1, 1))
        left = {}  # what compaction leaves, in its order
        for name, of, record in run._ledger._records(*run._ledger._bounds()):
            left.pop((name, of), None)
            left[name, of] = record
        mine = [record for record in left.values() if record is not None and record.query == query.name]
        assert reduce(replay, mine, State()).batch == 0
    assert query.seen() == [b"once"]
