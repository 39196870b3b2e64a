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
        """What readers of committed records see, once nothing is open."""
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


def test_a_batch_is_seen_when_it_is_committed_and_a_repeated_commit_adds_nothing(query):
    with query.run("r1") as run:
        term = run.join().term
        written = [query.write("r1", b"a"), query.write("r1", b"b")]
        run.commit(term, 0, written)
        run.commit(term, 0, [])
    assert sorted(query.seen()) == [b"a", b"b"]


def test_an_attempt_that_lost_is_aborted_by_the_commit(query):
    with query.run("r1") as run:
        term = run.join().term
        lost, written = query.write("r1", b"twice"), query.write("r1", b"once")
        run.commit(term, 0, [written])
        assert lost not in query.opened()
    assert query.seen() == [b"once"]


def test_the_next_run_aborts_at_once_what_a_killed_one_left_open(query):
    with query.run("r1") as run:
        run.join()
        query.write("r1", b"gone")
    with query.run("r2") as run:
        assert run.join().batch == -1
        assert query.opened() == []
    assert query.seen() == []


def test_the_next_run_ends_what_was_decided_and_writes_it_not_again(query, monkeypatch):
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


def test_a_driver_that_was_thought_dead_decides_nothing(query):
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


def test_a_deposed_decision_that_comes_in_late_is_not_ended(query, monkeypatch):
    """It was on its way when the other run claimed."""
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


def test_a_failed_batch_is_taken_back(query):
    with query.run("r1") as run:
        term = run.join().term
        query.write("r1", b"gone")
        run.abort(term)
        assert query.opened() == []
        with pytest.raises(Deposed):
            run.commit(term, 0, [])
    assert query.seen() == []


def test_what_a_task_opens_while_its_batch_is_taken_back_is_aborted_too(query, monkeypatch):
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
    """The runs of the query of which the ledger keeps a record, once it is compacted."""
    last = {(name, of): record for name, of, record in run._ledger._records(*run._ledger._bounds())}
    return {of for (name, of), record in last.items() if name == query.name and record is not None}


def test_a_task_of_a_dead_driver_that_comes_late_does_not_depose_its_successor(query):
    with query.run("late", Plan(1_000)) as late, query.run("new", Plan(2_000)) as new:
        term = new.join().term
        written = query.write("new", b"once")
        with pytest.raises(Deposed, match="planned 1000 ms after"):
            late.join()
        new.commit(term, 0, [written])
    assert query.seen() == [b"once"]


def test_a_driver_that_no_task_has_told_anything_takes_back_only_its_own_batch(query, tmp_path, monkeypatch):
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


def test_a_batch_without_rows_aborts_what_its_attempts_have_left_open(query):
    with query.run("r") as run:
        term = run.join().term
        query.write("r", b"gone")
        run.commit(term, 0, [])
        assert query.opened() == []
    assert query.seen() == []


def test_of_the_runs_before_nothing_is_kept_when_the_next_one_has_decided(query):
    with query.run("r1") as run:
        term = run.join().term
        run.commit(term, 0, [query.write("r1", b"a")])
        run.abort(term)
    with query.run("r2") as run:
        run.commit(run.join().term, 1, [query.write("r2", b"b")])
        assert kept(run, query) == {"r2"}


def test_of_a_batch_write_without_a_name_that_failed_nothing_is_kept(broker, topic):  # noqa: F811
    query = Query(broker.bootstrap, topic, UNNAMED + unique("write"))
    with query.run("r", named=False) as run:
        term = run.join().term
        query.write("r", b"gone")
        run.abort(term)
        assert kept(run, query) == set()
    assert query.seen() == []


def test_another_prefix_does_not_forget_what_is_decided(query):
    with query.run("r1") as run:
        run.commit(run.join().term, 3, [query.write("r1", b"once")])
    with query.run("r2", prefix="another") as run:
        assert run.join().batch == 3


def test_a_driver_whose_clock_is_ahead_decides(query, monkeypatch):
    ahead_s = 10 * query.timeout_ms / 1000
    with query.run("r") as run:
        term = run.join().term
        written = query.write("r", b"once")
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + ahead_s)
        run.commit(term, 0, [written])
    assert query.seen() == [b"once"]


def test_a_transaction_is_old_by_the_clock_of_its_coordinator(query):
    query.write("r", b"gone")
    begin = transactions.begin_of("test", query.name)
    with Admin(query.bootstrap) as admin:
        until(lambda: [one.is_old for one in transactions.opened(admin, begin, 1)] == [True], "a millisecond")
        assert [one.is_old for one in transactions.opened(admin, begin, query.timeout_ms)] == [False]


def test_a_decided_batch_is_not_taken_back(query, monkeypatch):
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


def test_a_decided_transaction_that_timed_out_is_an_error_that_says_so(query, monkeypatch):
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


def test_a_batch_that_has_ended_is_not_lost_where_the_broker_knows_no_more_how(query):
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


def test_a_batch_write_whose_driver_died_while_ending_is_ended_by_the_next_one(broker, topic, monkeypatch):  # noqa: F811
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


def test_a_batch_write_that_was_decided_and_could_neither_be_ended_nor_taken_back_is_ended_by_the_next_one(
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


def test_the_ledger_is_read_whole_and_once(query, monkeypatch):
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


def test_a_driver_that_was_deposed_long_ago_finds_neither_its_decision_nor_its_run_to_count(query):
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


def test_a_claim_writes_again_what_was_decided_before_it(query):
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
