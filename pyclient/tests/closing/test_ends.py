"""How clients end: they commit no unprocessed record, and leave no task and no member, whatever is raised meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition, aio
from pyclient.consumer.offsets.commits import Commits
from pyclient.errors import ClientClosed, ConfigError
from pyclient.tests.support import PATIENCE_S, read_all, take, until

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
RAISED = pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
COUNT, BATCH = 20, 5
TASKS_S = 30.0


@pytest.fixture
def place(broker, topic):
    """Creates a partition with records."""
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(COUNT)]).result(PATIENCE_S)
    return TopicPartition(topic, 0)


@pytest.fixture
def member(broker, group, place):
    """Returns the settings of a member of the test's group that commits automatically, but only when it is closed."""
    return {
        "bootstrap_servers": broker.bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "max_poll_records": BATCH,
        "auto_commit_interval_ms": 3_600_000,
    }


def committed(admin, group, place):
    """Returns the group's committed offset."""
    row = admin.list_consumer_group_offsets(group)
    found = row.get(place)
    return None if found is None else found.offset


async def alone() -> None:
    """Waits until no other task is left."""
    async with asyncio.timeout(TASKS_S):
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0)


def members(admin, group):
    return admin.describe_consumer_groups(group)[group].members


# -- what is committed ---------------------------------------------------------------------------------


@BOTH
@RAISED
def test_records_of_the_last_poll_are_not_committed_after_an_exception(admin, member, group, place, protocol, error):
    def work():
        with Consumer(config={**member, "group_protocol": protocol}, topics=place.topic) as consumer:
            assert len(take(consumer, BATCH)) == BATCH
            assert len(take(consumer, BATCH)) == BATCH
            raise error

    with pytest.raises(error):
        work()
    assert committed(admin, group, place) == BATCH


@RAISED
def test_an_iteration_left_by_an_exception_commits_none_of_its_batch(admin, member, group, place, error):
    def work():
        with Consumer(config=member, topics=place.topic) as consumer:
            for record in consumer:
                if record.offset == BATCH + 2:
                    raise error

    with pytest.raises(error):
        work()
    assert committed(admin, group, place) == BATCH


def test_the_current_record_is_not_committed_when_the_iteration_pauses(admin, member, group, place, monkeypatch):
    """A pause or a seek fetches the rest again, but the current record is not processed yet."""
    commits = 0
    settle = Commits.commit_settled

    async def counted(self, *options):
        nonlocal commits
        await settle(self, *options)
        commits += 1

    monkeypatch.setattr(Commits, "commit_settled", counted)
    with Consumer(config={**member, "auto_commit_interval_ms": 20}, topics=place.topic) as consumer:
        for record in consumer:
            if record.offset == BATCH + 1:
                until(lambda: committed(admin, group, place) == BATCH)
                consumer.pause([])
                until(lambda since=commits: commits >= since + 2, "a commit that has begun since")
                assert committed(admin, group, place) == BATCH
                break


@BOTH
def test_a_failing_task_of_the_group_commits_no_unprocessed_record(admin, member, group, place, protocol):
    async def work():
        has_records = asyncio.Event()

        async def read():
            async with aio.Consumer(config={**member, "group_protocol": protocol}, topics=place.topic) as consumer:
                given = 0
                while given < 2 * BATCH:
                    given += len(await consumer.poll(timeout=PATIENCE_S))
                has_records.set()
                await asyncio.Event().wait()

        async def fail():
            await has_records.wait()
            raise ZeroDivisionError

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        asyncio.run(work())
    assert committed(admin, group, place) == BATCH


# -- closes that are disturbed -----------------------------------------------------------------------------


class Raising:
    """A listener that raises when its partitions are revoked."""

    def on_partitions_revoked(self, partitions):
        raise ValueError("the listener")


class Endless:
    """A listener that never returns."""

    async def on_partitions_revoked(self, partitions):
        await asyncio.Event().wait()


@BOTH
def test_the_member_leaves_the_group_although_its_listener_raises(admin, member, group, place, protocol):
    consumer = Consumer(config={**member, "group_protocol": protocol}, topics=place.topic, listener=Raising())
    take(consumer, BATCH)
    with pytest.raises(ValueError, match="the listener"):
        consumer.close()
    assert not members(admin, group)
    assert committed(admin, group, place) == BATCH
    assert not consumer._runner._thread.is_alive()


@BOTH
def test_the_asyncio_member_leaves_the_group_although_its_listener_raises(admin, member, group, place, protocol):
    async def work():
        settings = {**member, "group_protocol": protocol}
        async with aio.Consumer(config=settings, topics=place.topic, listener=Raising()) as consumer:
            while not await consumer.poll(timeout=PATIENCE_S):
                pass
        raise AssertionError("the listener's error is lost")

    with pytest.raises(ValueError, match="the listener"):
        asyncio.run(work())
    assert not members(admin, group)
    assert committed(admin, group, place) == BATCH


@BOTH
def test_the_asyncio_member_leaves_the_group_although_its_close_is_cancelled(admin, member, group, place, protocol):
    """A timeout cancels it while a listener waits. The member leaves the group, and no task is left."""

    async def work():
        settings = {**member, "group_protocol": protocol}
        consumer = aio.Consumer(config=settings, topics=place.topic, listener=Endless())
        while not await consumer.poll(timeout=PATIENCE_S):
            pass
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.5)
        await consumer.close()
        await alone()
        with pytest.raises(ClientClosed):
            await consumer.poll()

    asyncio.run(work())
    until(lambda: not members(admin, group))


class Slow:
    """A listener that waits until the test lets it return, and closes the consumer itself."""

    def __init__(self):
        self.begun, self.may_end, self.consumer = asyncio.Event(), asyncio.Event(), None

    async def on_partitions_revoked(self, partitions):
        await self.consumer.close()
        self.begun.set()
        await self.may_end.wait()


def test_all_tasks_that_close_an_asyncio_consumer_wait_for_the_same_close(admin, member, group, place):
    async def work():
        listener = Slow()
        consumer = listener.consumer = aio.Consumer(config=member, topics=place.topic, listener=listener)
        while not await consumer.poll(timeout=PATIENCE_S):
            pass
        first, second = (asyncio.create_task(consumer.close()) for _ in range(2))
        await listener.begun.wait()
        hasty = asyncio.create_task(consumer.close(timeout=0))
        await hasty
        for _ in range(10):
            await asyncio.sleep(0)
        assert not second.done()
        listener.may_end.set()
        await second
        assert consumer._core.is_closed
        assert not await asyncio.to_thread(members, admin, group)
        await first
        await consumer.close()

    asyncio.run(asyncio.wait_for(work(), 3 * PATIENCE_S))


def test_a_nested_close_does_not_shorten_the_timeout_of_the_first(broker, topic):
    """A signal handler calls close(0) while the main thread closes."""
    producer = Producer(broker.bootstrap, **LINGERING)
    report = producer.send(topic, b"v")
    run = producer._runner.run

    def meddle_and_run(work, **limits):
        producer.close(0)
        return run(work, **limits)

    producer._runner.run = meddle_and_run
    producer.close(PATIENCE_S)
    assert report.result(0).offset == 0


def test_all_tasks_that_close_an_asyncio_producer_wait_for_the_same_close(broker, topic):
    async def work():
        producer = aio.Producer(broker.bootstrap, **LINGERING)
        report = await producer.send(topic, b"v")
        first, second = (asyncio.create_task(producer.close()) for _ in range(2))
        await asyncio.wait([second])
        assert report.done
        await first
        await producer.close()

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


@pytest.mark.parametrize("broken", ["_rewind", "_give_up"])
@RAISED
def test_no_thread_is_left_if_close_raises(broker, place, monkeypatch, broken, error):
    def fail(*_):
        raise error

    consumer = Consumer(broker.bootstrap)
    consumer.assign([place])
    with monkeypatch.context() as patched:
        patched.setattr(consumer, broken, fail)
        with pytest.raises(error):
            consumer.close()
    assert not consumer._runner._thread.is_alive()
    consumer.close()


def test_a_close_with_an_invalid_timeout_closes_nothing(broker):
    for kind in (Producer, Consumer, Admin):
        client = kind(broker.bootstrap)
        with pytest.raises(TypeError):
            client.close(timeout="5")
        client.close()
        assert not client._runner._thread.is_alive()


def test_running_calls_end_when_another_thread_closes_the_client(broker):
    for _ in range(20):
        admin = Admin(broker.bootstrap)
        admin.list_topics()
        told, asked = [], threading.Semaphore(0)

        def ask(admin=admin, told=told, asked=asked):
            try:
                while True:
                    admin.list_topics()
                    asked.release()
            except Exception as error:
                told.append(type(error))

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            assert asked.acquire(timeout=PATIENCE_S)
        admin.close()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a call hangs"
        assert told == [ClientClosed] * 2


def test_a_poll_ends_when_another_thread_closes_the_consumer(broker, place):
    consumer = Consumer(broker.bootstrap)
    consumer.assign([place])
    consumer.seek_to_end()
    told = []

    def read():
        try:
            consumer.poll()
        except Exception as error:
            told.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until(lambda: consumer._core._is_polling, "the poll")
    consumer.close()
    reader.join(PATIENCE_S)
    assert [type(error) for error in told] == [ClientClosed]


# -- producers ---------------------------------------------------------------------------------------------


def stable_end(broker, place):
    """Returns the last stable offset, at which readers of committed records stop."""
    with Consumer(broker.bootstrap, isolation_level="read_committed") as reader:
        return reader.end_offsets([place])[place]


@RAISED
def test_a_closed_producer_leaves_no_transaction_open(broker, place, group, error):
    """Later records could not be read for transaction.timeout.ms."""

    def work():
        with Producer(broker.bootstrap, transactional_id=group, transaction_timeout_ms=600_000) as producer:
            producer.begin_transaction()
            producer.send(place.topic, b"open").result(PATIENCE_S)
            raise error

    with pytest.raises(error):
        work()
    with Producer(broker.bootstrap) as producer:
        end = producer.send(place.topic, b"behind").result(PATIENCE_S).offset + 1
    until(lambda: stable_end(broker, place) >= end)  # a marker may come behind


@pytest.mark.parametrize("how", ["raised", "cancelled"])
def test_a_closed_asyncio_producer_leaves_no_transaction_open(broker, place, group, how):
    async def work():
        async with aio.Producer(broker.bootstrap, transactional_id=group, transaction_timeout_ms=600_000) as producer:
            await producer.begin_transaction()
            await (await producer.send(place.topic, b"open"))
            if how == "raised":
                raise ZeroDivisionError
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    with pytest.raises(ZeroDivisionError if how == "raised" else asyncio.CancelledError):
        asyncio.run(work())
    with Producer(broker.bootstrap) as producer:
        end = producer.send(place.topic, b"behind").result(PATIENCE_S).offset + 1
    until(lambda: stable_end(broker, place) >= end)  # a marker may come behind


def test_close_leaves_a_prepared_transaction_open(broker, place, group):
    with Producer(broker.bootstrap, transactional_id=group) as producer:
        producer.begin_transaction()
        offset = producer.send(place.topic, b"prepared").result(PATIENCE_S).offset
        prepared = producer.prepare_transaction()
    assert stable_end(broker, place) == offset
    with Producer(broker.bootstrap, transactional_id=group) as producer:
        producer.end_transaction(prepared.producer_id, prepared.epoch, True)
    until(lambda: stable_end(broker, place) >= offset + 2)


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_a_client_that_fails_to_start_leaves_no_thread(kind):
    before = set(threading.enumerate())
    for _ in range(3):
        with pytest.raises(ConfigError):
            kind("localhost")
    until(lambda: not [each for each in set(threading.enumerate()) - before if each.name == "pyclient-io"])


LINGERING = {"linger_ms": 3_600_000, "delivery_timeout_ms": 7_200_000}


@RAISED
def test_a_producer_in_a_with_block_delivers_its_records_even_after_an_exception(broker, topic, error):
    """After Ctrl-C, the producer has five seconds. A healthy broker needs less."""

    def work():
        with Producer(broker.bootstrap, **LINGERING) as producer:
            producer.send_many(topic, [b"v"] * 100)
            raise error

    with pytest.raises(error):
        work()
    assert len(read_all(broker.bootstrap, topic)) == 100


def test_a_producer_closed_with_timeout_0_reports_its_lost_records(broker, topic, caplog):
    producer = Producer(broker.bootstrap, **LINGERING)
    producer.send_many(topic, [b"v"] * 7)
    producer.close(timeout=0)
    assert caplog.text.count("was closed too early: 7 records are lost") == 1, caplog.text


def test_a_closing_producer_reports_records_that_the_broker_refuses(broker, new_topic, caplog):
    topic = new_topic(1, {"max.message.bytes": "1000"})
    with Producer(broker.bootstrap, **LINGERING) as producer:
        producer.send(topic, b"v" * 2000)
    assert caplog.text.count("was closed too early: 1 record is lost (") == 1, caplog.text


def test_a_failure_reported_to_a_callback_is_not_logged_at_close(broker, new_topic, caplog):
    topic, errors = new_topic(1, {"max.message.bytes": "1000"}), []
    with Producer(broker.bootstrap, **LINGERING) as producer:
        producer.send(topic, b"v" * 2000, on_delivery=lambda metadata, error: errors.append(error))
    assert len(errors) == 1
    assert "are lost" not in caplog.text


def test_an_asyncio_producer_closed_with_timeout_0_reports_its_lost_records(broker, topic, caplog):
    async def work():
        producer = aio.Producer(broker.bootstrap, **LINGERING)
        await producer.send_many(topic, [b"v"] * 7)
        await producer.close(timeout=0)

    asyncio.run(work())
    assert caplog.text.count("was closed too early: 7 records are lost") == 1, caplog.text
