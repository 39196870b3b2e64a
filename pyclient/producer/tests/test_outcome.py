"""Each batch ends once, and memory, lane, transaction and application learn of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from cy.produce.deliveries import Deliveries
from pyclient.errors import ClientClosed, ConnectionLost, RequestTimedOut
from pyclient.producer import at_exit
from pyclient.producer.errors import TransactionAborted
from pyclient.producer.in_flight import Identity
from pyclient.producer.tests.scripted import answer, make
from pyclient.producer.transactions import State

QUICK = {"delivery_timeout_ms": 3000, "request_timeout_ms": 2000}


def make_transaction(**settings):
    """Does what ``make`` does, with an open transaction."""
    client, queues, sender = make(transactional_id="x", **settings)
    sender.identities.state = State.READY
    sender.identities.begin()
    return client, queues, sender


def test_a_transaction_fails_if_a_batch_in_flight_is_overdue():
    """Otherwise flush would return, and the transaction would be committed without the record."""
    client, queues, sender = make_transaction(**QUICK)
    report = queues.send("t", b"v", partition=0)
    states = []
    report.add_done_callback(lambda: states.append(sender.identities.state))
    sender.run()
    client.now = 4.0
    sender.run()
    assert isinstance(report.error, RequestTimedOut)
    assert states == [State.FAILED]


def test_a_batch_fails_once():
    client, queues, sender = make_transaction(**QUICK)
    told = []
    inner = sender.identities.batch_failed
    sender.identities.batch_failed = lambda batch, error: (told.append(batch), inner(batch, error))
    queues.send("t", b"v", partition=0)
    sender.run()
    client.now = 4.0
    sender.run()
    _, _, on_done = client.posts.pop()
    on_done(None, ConnectionLost("h:1", "send"))
    assert len(told) == 1
    assert queues.used == 0


def test_requests_in_flight_are_answered_before_the_transaction_ends():
    """In transactions v1, a late request could be written after the abort marker."""
    client, queues, sender = make_transaction(**QUICK)
    reports = [queues.send("t", b"v", partition=0)]
    sender.run()
    reports.append(queues.send("t", b"v", partition=0))
    client.now = 4.0
    sender.run()
    heard = []
    sender.when_answered(lambda: heard.append(1))
    assert isinstance(reports[0].error, RequestTimedOut)
    assert isinstance(reports[1].error, TransactionAborted)
    assert heard == []
    answer(client)
    assert heard == [1]
    sender.when_answered(lambda: heard.append(2))
    assert heard == [1, 2]


def test_a_batch_that_would_be_retried_is_aborted_with_its_transaction():
    """CONCURRENT_TRANSACTIONS is the answer while the transaction before this one is being ended."""
    client, queues, sender = make_transaction(**QUICK)
    report = queues.send("t", b"v", partition=0)
    sender.run()
    sender.identities.state = State.FAILED
    answer(client, code=51)
    assert isinstance(report.error, TransactionAborted)
    assert report.error.__cause__.name == "CONCURRENT_TRANSACTIONS"


@pytest.mark.parametrize("code", [0, 87])
def test_an_exception_for_one_batch_does_not_affect_the_others(code):
    client, queues, sender = make()
    reports = [queues.send("t", b"v", partition=number) for number in (0, 2)]
    fault = ZeroDivisionError("here")
    inner, seen = sender.outcomes._row, []

    def row(lane, batch, row):
        seen.append(batch.partition)
        if batch.partition == 0:
            raise fault
        inner(lane, batch, row)

    sender.outcomes._row = row
    sender.run()
    answer(client, code)
    assert seen == [0, 2]
    assert "ZeroDivisionError" in str(reports[0].error)
    assert reports[1].done
    assert (reports[1].error is None) == (code == 0)
    assert queues.used == 0


@pytest.mark.parametrize("of", ["queues", "identities"])
def test_a_second_exception_while_a_batch_fails_does_not_affect_the_others(of):
    """Otherwise the other batches would be lost: they are neither in flight nor in the queue."""
    client, queues, sender = make()
    reports = [queues.send("t", b"v", partition=number) for number in (0, 2)]
    inner = sender.outcomes._row

    def row(lane, batch, row):
        if batch.partition == 0:
            raise ZeroDivisionError("here")
        inner(lane, batch, row)

    def fault(batch, *_):
        assert batch.partition != 0, "a second fault"

    sender.outcomes._row = row
    met = SimpleNamespace(release=fault, batch_failed=fault, is_over=False)
    setattr(sender.outcomes, of, met)
    sender.run()
    answer(client)
    assert "ZeroDivisionError" in str(reports[0].error)
    assert (reports[1].done, reports[1].error) == (True, None)


def test_a_batch_queued_for_a_retry_is_not_sent_again_after_an_exception():
    client, queues, sender = make()
    first = queues.send("t", b"v", partition=0)
    inner = sender.outcomes._again

    def fault(lane):
        inner(lane)
        raise ZeroDivisionError("here")

    sender.outcomes._again = fault
    sender.run()
    answer(client, 7)
    assert "ZeroDivisionError" in str(first.error)
    client.now = 1.0
    sender.run()
    assert client.posts == []
    assert queues.used == 0


def test_a_gap_ends_with_its_transaction():
    """The refused batch leaves a gap. The next transaction has new sequences."""
    client, queues, sender = make_transaction(batch_size=0)
    for number in range(3):
        queues.send("t", b"v", partition=0)
        sender.run()
        if number == 0:
            answer(client)
    answer(client, 87)
    answer(client, 45)
    assert sender.lane(queues.topic("t").queues[0]).halted
    transactions = sender.identities
    assert transactions.state is State.FAILED
    transactions.current, transactions.state = Identity(7, 1), State.READY
    transactions.begin()
    reports = [queues.send("t", b"v", partition=number) for number in (0, 1)]
    sender.run()
    while client.posts:
        answer(client)
    assert [(report.done, report.error) for report in reports] == [(True, None)] * 2


@pytest.mark.parametrize("is_version_1", [True, False])
def test_an_abort_of_a_batch_queued_for_a_retry_leaves_no_gap(is_version_1):
    """Two batches found too few replicas. The first has no sequence once it is dropped, so the partition halts. Before,
    all that later transactions sent there waited for delivery.timeout.ms.
    """
    client, queues, sender = make_transaction(batch_size=0)
    transactions = sender.identities
    transactions.coordinator = NextEpoch(is_version_1)
    lane = sender.lane(queues.topic("t").queues[0])
    lane.added = True
    for number in range(3):
        queues.send("t", b"v", partition=0)
        sender.run()
        if number == 0:
            answer(client)
    answer(client, 19)
    answer(client, 45)

    async def drain():
        sender.drop(TransactionAborted())

    asyncio.run(transactions.abort(drain))
    assert lane.halted
    transactions.begin()
    lane.added = True
    report = queues.send("t", b"v", partition=0)
    sender.run()
    while client.posts:
        answer(client)
    assert (report.done, report.error) == (True, None)
    assert (lane.identity, lane.next_sequence) == (Identity(7, 1), 1)


class NextEpoch(SimpleNamespace):
    """A coordinator that ends every transaction."""

    def __init__(self, is_version_1):
        super().__init__(id="x", is_version_1=is_version_1)

    async def end(self, identity, commit):
        return None if self.is_version_1 else await self.init(identity)

    async def init(self, known):
        return Identity(known.producer_id, known.epoch + 1)


def test_a_batch_that_is_retried_many_times_is_logged(caplog):
    client, queues, sender = make(delivery_timeout_ms=60_000)
    queues.send("t", b"v", partition=0)
    for attempt in range(1, 7):
        client.now += 5.0
        sender.run()
        assert bool(caplog.records) == (attempt > 4)
        answer(client, 19)
    [line] = caplog.records
    assert line.getMessage().startswith("t-0 is sent again: ")
    assert line.getMessage().endswith("(NOT_ENOUGH_REPLICAS)")


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_refusal_that_nobody_waits_for_is_logged_once_per_error(caplog):
    client, queues, sender = make()
    for number in (0, 0, 1, 1, 2):
        queues.send("t", b"v", partition=number)
    sender.run()
    for _ in range(2):
        answer(client, 87)
    assert lines(caplog) == [
        "t-0: 2 records were not delivered: A record failed the broker's validation. (INVALID_RECORD). "
        "The application does not ask for the result: give send a callback (on_delivery), or wait for what it returns"
    ]
    queues.send("t", b"v", partition=0)
    sender.run()
    answer(client, 29)
    assert "1 record was not delivered: " in lines(caplog)[1]
    assert "(TOPIC_AUTHORIZATION_FAILED)" in lines(caplog)[1]


@pytest.mark.parametrize("hear", ["callback", "waiter", "many", "transaction", "close"])
def test_a_refusal_with_a_callback_or_a_waiter_is_not_logged(caplog, hear):
    _, queues, sender = make_transaction() if hear == "transaction" else make()
    report = queues.send("t", b"v", partition=0, on_delivery=(lambda *_: None) if hear == "callback" else None)
    if hear == "waiter":
        report.add_done_callback(lambda: None)
    elif hear == "many":
        deliveries = Deliveries(1, 0)
        deliveries.keep(report)
        with pytest.raises(TimeoutError):
            deliveries.result(0)
    elif hear == "close":
        sender.last()
    sender.run()
    sender.fail_all(ClientClosed())
    assert isinstance(report.error, ClientClosed)
    assert caplog.records == []


def test_the_lost_records_of_a_batch_that_was_split_are_counted_once_and_without_the_delivered(caplog):
    client, queues, sender = make()
    for _ in range(8):
        queues.send("t", bytes(1000), partition=0)
    sender.run()
    (whole,) = sender.last()
    answer(client, 10)
    answer(client, 0)
    rest = sum(batch.count for batch in sender.last())
    assert 0 < rest < 8
    at_exit.tell_lost("producer", [whole, *sender.last()])
    assert lines(caplog)[-1].startswith(f"a producer was not closed: {rest} records are lost")
