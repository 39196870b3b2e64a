"""The sender against a scripted client with a manual clock."""

from __future__ import annotations

import asyncio

import pytest

from cy.batch import iterate, read_header
from pyclient.errors import ClientClosed, ClusterAuthorizationFailed, ConnectionLost, KafkaError, RequestTimedOut
from pyclient.producer.errors import TransactionAborted
from pyclient.producer.tests.scripted import answer, batches_of, make
from pyclient.producer.transactions import State
from pyclient.protocol import Produce


def test_batches_of_one_broker_share_a_request():
    client, queues, sender = make()
    for partition in range(4):
        queues.send("t", b"v", partition=partition)
    sender.run()
    assert {node: set(batches_of(message)) for node, message, _ in client.posts} == {0: {0, 2}, 1: {1, 3}}


def test_a_batch_waits_for_linger_unless_it_is_full():
    client, queues, sender = make(linger_ms=5, batch_size=1000)
    queues.send("t", b"v", partition=0)
    sender.run()
    assert client.posts == []
    assert client.loop.timers[-1].delay == pytest.approx(0.005)
    client.now = 0.005
    client.loop.timers[-1].function()
    assert len(client.posts) == 1
    for _ in range(10):
        queues.send("t", b"v" * 100, partition=1)
    sender.run()
    assert len(client.posts) == 2


def test_a_report_has_the_brokers_offset():
    client, queues, sender = make()
    report = queues.send("t", b"v", partition=0, timestamp=5)
    sender.run()
    answer(client, offset=42)
    assert report.result(0).offset == 42
    assert queues.used == 0


def test_a_lost_request_is_retried_after_the_backoff_with_its_sequence():
    client, queues, sender = make()
    queues.send("t", b"v", partition=0)
    sender.run()
    _, first, on_done = client.posts.pop()
    on_done(None, ConnectionLost("h:1", "send"))
    assert client.posts == []
    assert client.refreshed
    client.now = 0.2
    sender.run()
    _, second, _ = client.posts.pop()
    assert batches_of(second) == batches_of(first)


def test_no_new_batch_is_sent_until_all_requests_of_a_lost_connection_failed():
    """Otherwise it would be appended, and reported, before earlier batches that were not answered."""
    client, queues, sender = make()
    for value in (b"v", b"early"):
        for partition in (2, 0):
            queues.send("t", value, partition=partition)
            sender.run()
        while value == b"v" and client.posts:
            answer(client)
    queues.send("t", b"new", partition=0)
    lost, client.posts = client.posts, []
    for _, _, on_done in lost:
        on_done(None, ConnectionLost("h:1", "send"))
    assert client.posts == []
    assert client.loop.timers[-1].delay == 0
    client.now = 1.0
    client.loop.timers[-1].function()
    values = [bytes(record.value) for record in iterate(batches_of(client.posts[0][1])[0])]
    assert values == [b"early"]


def test_a_new_leader_named_in_the_answer_is_used_at_once():
    client, queues, sender = make()
    queues.send("t", b"v", partition=0)
    sender.run()
    answer(client, 6, current_leader=Produce.Response.LeaderIdAndEpoch(leader_id=1, leader_epoch=9))
    assert [node for node, _, _ in client.posts] == [1]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_rejected_batch_reaches_the_new_leader_before_later_batches(idempotent):
    """The listener that hears of the leader lets the sender run before it is decided that the batch is sent again."""
    client, queues, sender = make(
        batch_size=0, max_in_flight_requests_per_connection=1, enable_idempotence=idempotent
    )
    client.cluster.subscribe(lambda cluster, topics: sender.run())
    for value in (b"early", b"late"):
        queues.send("t", value, partition=0)
    sender.run()
    answer(client, 6, current_leader=Produce.Response.LeaderIdAndEpoch(leader_id=1, leader_epoch=9))
    [(node, message, _)] = client.posts
    assert node == 1
    assert [record.value for record in iterate(batches_of(message)[0])] == [b"early"]


def test_a_refused_batch_fails_and_names_its_records():
    client, queues, sender = make()
    reports = [queues.send("t", b"v", partition=0) for _ in range(2)]
    sender.run()
    error = Produce.Response.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
    answer(client, 87, record_errors=[error], error_message="bad")
    assert str(reports[0].error) == "t-0: bad"
    assert str(reports[1].error) == "no key"
    assert queues.used == 0


def test_a_gap_raises_the_epoch_of_its_partition_only():
    client, queues, sender = make()
    queues.send("t", b"v", partition=0)
    queues.send("t", b"v", partition=1)
    sender.run()
    client.posts.reverse()
    posts = {node: post for post in client.posts for node in [post[0]]}
    client.posts = [posts[0]]
    answer(client, 45)
    again = read_header(batches_of(client.posts.pop()[1])[0])
    assert (again.producer_epoch, again.base_sequence) == (1, 0)
    client.posts = [posts[1]]
    answer(client)
    queues.send("t", b"v", partition=3)
    queues.send("t", b"v", partition=1)
    sender.run()
    _, message, _ = client.posts.pop()
    epochs = {index: read_header(records).producer_epoch for index, records in batches_of(message).items()}
    assert epochs == {1: 1, 3: 1}


def test_a_batch_that_is_too_large_is_split_and_delivered():
    client, queues, sender = make()
    reports = [queues.send("t", b"%03d" % number * 10, partition=0) for number in range(100)]
    sender.run()
    sent = []
    answer(client, 10)
    while client.posts:
        message = answer(client, 0, offset=len(sent))
        sent += [bytes(record.value) for record in iterate(batches_of(message)[0])]
    assert sent == [b"%03d" % number * 10 for number in range(100)]
    assert [report.result(0).offset for report in reports] == list(range(100))
    assert queues.used == 0


def test_parts_that_are_too_large_are_split_again_after_a_backoff():
    client, queues, sender = make(retry_backoff_ms=100)
    reports = [queues.send("t", bytes(1000), partition=0) for _ in range(8)]
    sender.run()
    answer(client, 10)
    assert len(client.posts) == 1
    answer(client, 10)
    assert client.posts == []
    client.now = 0.1
    sender.run()
    while client.posts:
        answer(client, 0)
    assert all(report.error is None and report.done for report in reports)


def test_the_error_of_a_delivery_timeout_names_the_last_failure():
    client, queues, sender = make(delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    report = queues.send("t", b"v", partition=0)
    sender.run()
    answer(client, 6)
    client.now = 31.0
    sender.run()
    assert isinstance(report.error, RequestTimedOut)
    assert "1 attempt, " in str(report.error)
    assert isinstance(report.error.__cause__, KafkaError)


def test_exhausted_retries_fail_with_the_brokers_error():
    client, queues, sender = make(retries=1, enable_idempotence=False)
    report = queues.send("t", b"v", partition=0)
    sender.run()
    answer(client, 6)
    client.now = 1.0
    sender.run()
    answer(client, 6)
    assert report.error.name == "NOT_LEADER_OR_FOLLOWER"


def test_a_partition_without_a_leader_waits_and_refreshes_metadata():
    client, queues, sender = make()
    client.lead([-1, 1, 0, 1], epoch=2)
    queues.send("t", b"v", partition=0)
    sender.run()
    assert client.posts == []
    assert client.refreshed == ["t"]
    assert not queues.topic("t").queues[0].available
    client.lead([1, 1, 0, 1], epoch=3)
    sender.run()
    assert [node for node, _, _ in client.posts] == [1]


def test_no_more_requests_are_in_flight_than_allowed():
    client, queues, sender = make(max_in_flight_requests_per_connection=1, enable_idempotence=False)
    for _ in range(3):
        queues.send("t", b"v", partition=0)
        sender.run()
    assert len(client.posts) == 1
    answer(client)
    assert len(client.posts) == 1


def test_a_batch_with_acks_0_is_done_when_sent():
    client, queues, sender = make(acks="0")
    report = queues.send("t", b"v", partition=0)
    sender.run()
    _, message, on_done = client.posts.pop()
    assert message.acks == 0
    on_done(None, None)
    assert report.result(0).offset == -1


def spread(client, queues, sender, count):
    """Sends records without a key while broker 0 answers at once and broker 1 never does. Returns the records by
    broker.
    """
    found = [0, 0]
    for _ in range(count):
        found[queues.send("t", bytes(1000)).partition % 2] += 1
        sender.run()
        while any(node == 0 for node, _, _ in client.posts):
            client.posts.sort(key=lambda post: post[0])
            answer(client)
    return found


def test_a_slow_broker_gets_fewer_records_without_a_key():
    """KIP-794: a partition with a long queue is chosen less often."""
    slow = {}
    for adaptive in (True, False):
        settings = {"batch_size": 5000, "partitioner_adaptive_partitioning_enable": adaptive}
        slow[adaptive] = spread(*make(**settings), 3000)[1]
    assert slow[True] < 1000
    assert slow[False] >= 1500


def test_a_broker_unavailable_for_the_timeout_gets_no_records_without_a_key():
    settings = {"max_in_flight_requests_per_connection": 1, "partitioner_availability_timeout_ms": 1000}
    client, queues, sender = make(batch_size=5000, **settings)
    for partition in (1, 3):
        queues.send("t", b"v", partition=partition)
        sender.run()
    assert client.loop.timers[-1].delay == pytest.approx(1.0)
    assert [queue.available for queue in queues.topic("t").queues] == [True] * 4
    client.now = 1.0
    client.loop.timers[-1].function()
    assert [queue.available for queue in queues.topic("t").queues] == [True, False, True, False]
    assert spread(client, queues, sender, 100) == [100, 0]
    answer(client)
    assert [queue.available for queue in queues.topic("t").queues] == [True] * 4


def test_a_partition_that_has_a_leader_again_is_chosen_again():
    """This holds even if the records that waited for the leader are gone."""
    client, queues, sender = make(delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    client.lead([-1, 1, 0, 1], epoch=2)
    report = queues.send("t", b"v", partition=0)
    sender.run()
    client.now = 31.0
    sender.run()
    assert isinstance(report.error, RequestTimedOut)
    assert not queues.topic("t").queues[0].available
    client.lead([1, 1, 0, 1], epoch=3)
    sender.update_available(["t"])
    assert queues.topic("t").queues[0].available


def test_memory_freed_by_overdue_batches_wakes_waiting_senders():
    client, queues, sender = make(delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    queues.send("t", b"v", partition=0)
    sender.run()
    answer(client, 6)
    told = []
    sender.room_waiters.append(lambda: told.append(queues.used))
    client.now = 31.0
    sender.run()
    assert told == [0]


def test_partitions_take_turns_if_a_request_has_room_for_one_batch():
    settings = {"max_in_flight_requests_per_connection": 1, "max_request_size": 1500, "batch_size": 1000}
    client, queues, sender = make(**settings)
    sent = []
    for partition in (0, 2):
        for _ in range(10):
            queues.send("t", bytes(900), partition=partition)
    sender.run()
    for _ in range(10):
        sent += batches_of(answer(client))
    assert abs(sent.count(0) - sent.count(2)) <= 1


def test_no_timer_is_set_after_the_end():
    """A response that arrives while the connections close would set a timer again."""
    client, queues, sender = make()
    reports = [queues.send("t", b"v", partition=number) for number in (0, 1)]
    sender.run()
    queues.closed = True
    sender.fail_all(ClientClosed())
    for _, _, on_done in client.posts:
        on_done(None, ConnectionLost("h:1", "send"))
    sender.update_available(["t"])
    sender.run()
    assert len(client.posts) == 2
    assert all(isinstance(report.error, ClientClosed) for report in reports)
    assert all(timer.cancelled for timer in client.loop.timers)
    assert queues.used == 0


def test_one_timer_is_set_for_the_oldest_batch():
    """A record sent alone does not search for timeouts, and each batch expires at its own time."""
    client, queues, sender = make(delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    reports = []
    for number in range(3):
        client.now = float(number)
        reports.append(queues.send("t", b"v", partition=number))
        sender.run()
    assert [timer.delay for timer in client.loop.timers] == [30.0]
    for number in range(3):
        client.now = 30.5 + number
        client.loop.timers[-1].function()
        assert [report.done for report in reports] == [at <= number for at in range(3)]


def test_waiting_batches_fail_when_the_transaction_fails():
    """A batch waits for its leader when the transaction fails. Later records are refused too."""
    client, queues, sender = make(transactional_id="x")
    sender.identities.state = State.OPEN
    client.lead([-1, -1, -1, -1], epoch=2)
    waiting = queues.send("t", b"v", partition=0)
    sender.run()
    assert not waiting.done
    sender.identities.state, sender.identities.error = State.FAILED, KafkaError("why")
    late = queues.send("t", b"v", partition=1)
    sender.run()
    for report in (waiting, late):
        assert isinstance(report.error, TransactionAborted)
        assert str(report.error.__cause__) == "why"
    assert (client.posts, queues.used) == ([], 0)


def test_the_error_about_a_producer_id_names_the_right_to_write_the_topic():
    _, queues, sender = make()
    report = queues.send("t", b"v", partition=0)
    sender.drop(ClusterAuthorizationFailed())
    with pytest.raises(ClusterAuthorizationFailed, match="its user needs WRITE on topic t") as caught:
        report.result(0)
    assert "--operation write --topic t" in caught.value.grant


def test_the_log_line_about_a_refused_producer_id_names_the_missing_right(caplog):
    client, _, sender = make()

    async def refuse(*_, **__):
        raise ClusterAuthorizationFailed()

    client.retrying = refuse
    asyncio.run(sender.identities._get())
    assert "its user needs IDEMPOTENT_WRITE on the cluster (or WRITE on any topic), which" in caplog.text
