"""Transactions of both versions: visibility, offsets, fencing, and the state after a failure."""

from __future__ import annotations

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition
from pyclient.errors import KafkaError
from pyclient.producer.errors import TransactionError
from pyclient.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTransactionTimeout,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S, read_all, take, until

COMMITTED = {"isolation_level": "read_committed"}


@pytest.fixture(scope="module", params=["v2", "v1"])
def bootstrap(request, broker):
    """Returns the address of a broker with this version of transactions. The shared broker keeps version 2."""
    if request.param == "v2":
        yield broker.bootstrap
        return
    from pyclient.admin.types import UpgradeType

    with Admin(broker.bootstrap) as admin:
        admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        until(lambda: admin.describe_features().finalized["transaction.version"].max_version == 1)
        yield broker.bootstrap
        admin.update_features({"transaction.version": 2})
        until(lambda: admin.describe_features().finalized["transaction.version"].max_version == 2)


@pytest.fixture
def transactional_id():
    return unique("txn")


@pytest.fixture
def producer(bootstrap, transactional_id):
    with Producer(bootstrap, transactional_id=transactional_id) as made:
        yield made


def values(bootstrap, topic, partitions=1, **settings):
    return sorted(bytes(record.value) for record in read_all(bootstrap, topic, partitions, **settings))


def stable(bootstrap, topic, partition=0):
    """Waits until nothing is open in the partition: commit and abort return before the markers are written."""
    place = TopicPartition(topic, partition)
    with Consumer(bootstrap) as everything, Consumer(bootstrap, **COMMITTED) as consumer:
        until(lambda: consumer.end_offsets([place]) == everything.end_offsets([place]), "the markers")


def test_a_commit_shows_all_records_and_an_abort_none(bootstrap, producer, new_topic):
    topic = new_topic(3)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.send(topic, value=b"%d" % number, partition=partition)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    for partition in range(3):
        stable(bootstrap, topic, partition)
    assert values(bootstrap, topic, 3, **COMMITTED) == sorted([b"0", b"2", b"4"] * 3)


def test_delivered_records_of_an_aborted_transaction_are_seen_only_by_read_uncommitted(bootstrap, producer, topic):
    producer.begin_transaction()
    producer.send(topic, value=b"gone").result(PATIENCE_S)
    assert values(bootstrap, topic, **COMMITTED) == []
    assert values(bootstrap, topic) == [b"gone"]
    producer.abort_transaction()
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == []


def test_an_exception_in_the_block_aborts_and_the_producer_continues(bootstrap, producer, topic):
    def work() -> None:
        with producer.transaction():
            producer.send(topic, value=b"gone").result(PATIENCE_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with producer.transaction():
        producer.send(topic, value=b"kept")
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == [b"kept"]


def test_arrow_leaves_aborted_records_out(bootstrap, producer, topic):
    for number in range(4):
        producer.begin_transaction()
        producer.send_many(topic, [b"%d" % number] * 100)
        (producer.commit_transaction if number % 2 else producer.abort_transaction)()
    stable(bootstrap, topic)
    with Consumer(bootstrap, auto_offset_reset="earliest", **COMMITTED) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        rows = []
        while len(rows) < 200:
            rows += consumer.poll_arrow(timeout=PATIENCE_S).column("value").to_pylist()
    assert rows == [b"1"] * 100 + [b"3"] * 100


def test_many_transactions_follow_each_other(bootstrap, producer, topic):
    for number in range(100):
        with producer.transaction():
            producer.send(topic, value=b"%03d" % number)
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == [b"%03d" % number for number in range(100)]


def test_an_empty_transaction_sends_nothing_to_the_coordinator(producer, transactional_id, admin):
    """The coordinator does not learn of the transaction. If one had ended there, its state, or in version 2 its epoch,
    would differ.
    """
    producer.init_transactions()
    [before] = admin.describe_transactions(transactional_id).values()
    with producer.transaction():
        pass
    producer.begin_transaction()
    producer.abort_transaction()
    [after] = admin.describe_transactions(transactional_id).values()
    assert after == before
    assert after.state == "Empty"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consume_transform_produce_is_exactly_once(bootstrap, producer, new_topic, group, protocol):
    source, target = new_topic(2), new_topic()
    with Producer(bootstrap) as feeder:
        for partition in range(2):
            feeder.send_many(source, [b"%d-%02d" % (partition, number) for number in range(50)], partition=partition)
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False, "max_poll_records": 9}
    done, attempt = 0, 0
    while done < 100:
        with Consumer(bootstrap, topics=source, group_protocol=protocol, **COMMITTED, **settings) as consumer:
            for _ in range(4):
                if done == 100:
                    break
                records = consumer.poll(timeout=PATIENCE_S)
                attempt += 1
                producer.begin_transaction()
                for record in records:
                    producer.send(target, value=bytes(record.value))
                producer.send_offsets(consumer.positions(), consumer.group_metadata())
                if attempt % 3 == 0:
                    producer.abort_transaction()
                    break
                producer.commit_transaction()
                done += len(records)
    stable(bootstrap, target)
    expected = [b"%d-%02d" % (partition, number) for partition in range(2) for number in range(50)]
    assert values(bootstrap, target, **COMMITTED) == expected


def test_offsets_of_a_missing_topic_are_refused_with_its_name(bootstrap, transactional_id, group):
    with Producer(bootstrap, transactional_id=transactional_id, max_block_ms=1000) as producer:
        producer.begin_transaction()
        with pytest.raises(UnknownTopicOrPartition, match="nope-0: "):
            producer.send_offsets({TopicPartition("nope", 0): 1}, group)


def test_offsets_of_an_aborted_transaction_are_not_committed(bootstrap, producer, topic, group, admin):
    place = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send_offsets({place: 5}, group)
    producer.abort_transaction()
    with producer.transaction():
        producer.send_offsets({place: 3}, group)
    with Consumer(bootstrap, group_id=group) as consumer:
        assert consumer.committed([place])[place].offset == 3


def test_newer_producer_fences_the_older_one(bootstrap, producer, transactional_id, topic):
    """Cases 33 and 38: the zombie can neither write nor commit."""
    producer.begin_transaction()
    producer.send(topic, value=b"zombie").result(PATIENCE_S)
    with Producer(bootstrap, transactional_id=transactional_id) as newer, newer.transaction():
        newer.send(topic, value=b"newer")
    with pytest.raises(KafkaError) as told:
        producer.commit_transaction()
    assert isinstance(told.value, ProducerFenced | InvalidProducerEpoch)
    with pytest.raises(KafkaError):
        producer.begin_transaction()
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == [b"newer"]


def test_the_admin_fences_a_producer(producer, transactional_id, topic, admin):
    producer.begin_transaction()
    producer.send(topic, value=b"zombie").result(PATIENCE_S)
    admin.fence_producers(transactional_id)
    report = producer.send(topic, value=b"late")
    with pytest.raises(KafkaError):
        report.result(PATIENCE_S)
    with pytest.raises(KafkaError):
        producer.commit_transaction()


def test_the_next_producer_aborts_the_open_transaction_of_a_dead_one(bootstrap, producer, transactional_id, topic):
    producer.begin_transaction()
    producer.send(topic, value=b"left").result(PATIENCE_S)
    with Producer(bootstrap, transactional_id=transactional_id) as newer:
        newer.init_transactions()
        stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == []


@pytest.mark.parametrize("commit", [True, False])
def test_another_process_ends_the_transaction(bootstrap, producer, transactional_id, topic, commit):
    """As in an exactly-once sink: the driver commits the transaction of a task."""
    producer.begin_transaction()
    producer.send(topic, value=b"v").result(PATIENCE_S)
    producer_id, epoch = producer.producer_id
    with Producer(bootstrap, transactional_id=transactional_id) as driver:
        driver.end_transaction(producer_id, epoch, commit)
        driver.end_transaction(producer_id, epoch, commit)
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == ([b"v"] if commit else [])


def test_a_failed_record_fails_the_commit_until_an_abort(bootstrap, producer, new_topic):
    topic = new_topic(1, {"max.message.bytes": "1000"})
    producer.begin_transaction()
    producer.send(topic, value=b"with the large one")
    report = producer.send(topic, value=bytes(5000))
    with pytest.raises(KafkaError):
        report.result(PATIENCE_S)
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, value=b"after")
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == [b"after"]


def test_calls_in_the_wrong_order_raise_transaction_error(producer, topic):
    told = r"no transaction is open, transactional id '.*with producer\.transaction\(\)"
    with pytest.raises(TransactionError, match=told):
        producer.send(topic, value=b"v")
    producer.init_transactions()
    with pytest.raises(TransactionError, match=told):
        producer.send(topic, value=b"v")
    with pytest.raises(TransactionError):
        producer.commit_transaction()
    producer.begin_transaction()
    with pytest.raises(TransactionError):
        producer.begin_transaction()
    producer.abort_transaction()


def test_a_transaction_timeout_above_the_brokers_maximum_is_refused(bootstrap, transactional_id):
    """Case 35."""
    with (
        Producer(bootstrap, transactional_id=transactional_id, transaction_timeout_ms=10**9) as producer,
        pytest.raises(KafkaError) as told,
    ):
        producer.init_transactions()
    assert isinstance(told.value, InvalidTransactionTimeout)


def test_committed_waits_for_offsets_of_a_pending_transaction(bootstrap, producer, topic, group):
    """Case 43: a member that starts while offsets are pending begins where the transaction ends."""
    with Producer(bootstrap) as feeder:
        feeder.send_many(topic, [b"%d" % number for number in range(10)]).result(PATIENCE_S)
    producer.begin_transaction()
    producer.send_offsets({TopicPartition(topic, 0): 6}, group)
    settings = {"group_id": group, "auto_offset_reset": "earliest", **COMMITTED}
    with Consumer(bootstrap, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert not consumer.poll(timeout=0.5)
        producer.commit_transaction()
        assert take(consumer, 1)[0].offset == 6


@pytest.mark.parametrize("commit", [True, False])
def test_another_producer_ends_a_prepared_transaction(bootstrap, transactional_id, topic, commit):
    """The test ends it twice, as after a lost response. The producer that prepared it can only be closed."""
    with Producer(bootstrap, transactional_id=transactional_id) as producer:
        producer.begin_transaction()
        producer.send(topic, value=b"prepared")
        prepared = producer.prepare_transaction()
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(TransactionError, match="another process ends it"):
                call()
    assert prepared == (transactional_id, *producer.producer_id)
    assert values(bootstrap, topic, **COMMITTED) == []
    with Admin(bootstrap) as admin:
        for _ in range(2):
            admin.end_transactions([prepared], commit=commit)
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == ([b"prepared"] if commit else [])


def test_preparing_a_transaction_without_records_is_refused(producer):
    producer.begin_transaction()
    assert producer.prepare_transaction() is None


def test_preparing_a_failed_transaction_is_refused(bootstrap, transactional_id, producer, topic):
    producer.begin_transaction()
    producer.send(topic, value=b"gone").result(PATIENCE_S)
    with Admin(bootstrap) as admin:
        admin.fence_producers(transactional_id)
    producer.send(topic, value=b"refused")
    with pytest.raises(KafkaError):
        producer.prepare_transaction()


def test_ending_a_transaction_with_another_producer_id_or_epoch_is_refused(bootstrap, transactional_id, topic):
    with Producer(bootstrap, transactional_id=transactional_id) as producer:
        producer.begin_transaction()
        producer.send(topic, value=b"first")
        first = producer.prepare_transaction()
    with Admin(bootstrap) as admin:
        admin.end_transactions([first], commit=False)
        with Producer(bootstrap, transactional_id=transactional_id) as producer:
            producer.begin_transaction()
            producer.send(topic, value=b"second")
            second = producer.prepare_transaction()
        refused = admin.end_transactions([first], commit=True, check=False)
        assert not refused.errors[transactional_id].retriable
        admin.end_transactions([second], commit=True)
    stable(bootstrap, topic)
    assert values(bootstrap, topic, **COMMITTED) == [b"second"]
