"""Events outside the client: signals, forks, missing brokers, pickles, logs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyclient import Admin, Consumer, KafkaError, Producer, TopicPartition, aio
from pyclient.errors import ClientForked, ConnectionFailed, WakeupError
from pyclient.tests.support import PATIENCE_S, read_all, take, until

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("early", [False, True])
def test_wakeup_ends_the_poll_or_the_next_one(broker, topic, early):
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        timer = threading.Timer(0 if early else 0.2, consumer.wakeup)
        timer.start()
        if early:
            timer.join()
        with pytest.raises(WakeupError):
            consumer.poll()
        assert not consumer.poll(timeout=0)


@pytest.mark.nightly
def test_wakeup_works_from_a_signal_handler(broker, topic):
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        before = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(WakeupError):
                consumer.poll()
        finally:
            signal.signal(signal.SIGALRM, before)


def in_child(work):
    """Runs ``work()`` in a forked child, which then ends at once. Returns the result as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = str(work())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert select.select([pipe], [], [], PATIENCE_S)[0], "the child hangs"
        told = pipe.read().decode()
    os.waitpid(child, 0)
    return told


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_fails_in_a_forked_child_and_works_in_the_parent(broker, topic):
    with (
        Producer(broker.bootstrap) as producer,
        Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer,
        Admin(broker.bootstrap) as admin,
    ):
        producer.send(topic, value=b"0").result(PATIENCE_S)
        consumer.assign([TopicPartition(topic, 0)])
        take(consumer, 1)
        admin.list_topics()
        calls = {
            "send": lambda: producer.send(topic, value=b"child").result(5),
            "flush": producer.flush,
            "poll": lambda: consumer.poll(timeout=5),
            "commit": lambda: consumer.position(TopicPartition(topic, 1), timeout=5),
            "admin": admin.list_topics,
        }
        for name, call in calls.items():
            assert in_child(call).startswith(ClientForked.__name__), name
        assert in_child(lambda: [one.close() for one in (producer, consumer, admin)]) == "[None, None, None]"
        assert in_child(lambda: read_all(broker.bootstrap, topic)[0].value) == "b'0'"
        assert producer.send(topic, value=b"1").result(PATIENCE_S).offset == 1
        assert take(consumer, 1)[0].offset == 1


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_asyncio_client_fails_in_a_forked_child_and_works_in_the_parent(broker, topic):
    """Parent and child share the loop's selector: an event that the child consumed would be lost for the parent."""
    place = TopicPartition(topic, 0)

    async def work():
        async with (
            aio.Producer(broker.bootstrap) as producer,
            aio.Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer,
            aio.Admin(broker.bootstrap) as admin,
        ):
            await producer.send_and_wait(topic, b"0")
            await consumer.assign([place])
            assert (await consumer.get(PATIENCE_S)).offset == 0
            await admin.list_topics()
            calls = {
                "send": lambda: producer.send(topic, b"child"),
                "send_many": lambda: producer.send_many(topic, [b"child"]),
                "flush": producer.flush,
                "poll": consumer.poll,
                "end_offsets": lambda: consumer.end_offsets([place]),
                "admin": admin.list_topics,
                "fan_out": lambda: admin.list_offsets({place: "latest"}),
            }
            for name, call in calls.items():
                assert in_child(lambda call=call: asyncio.run(limited(call))).startswith(ClientForked.__name__), name
            for client in (producer, consumer, admin):
                assert in_child(lambda client=client: asyncio.run(limited(client.close))) == "None"
            assert (await producer.send_and_wait(topic, b"1")).offset == 1
            assert (await consumer.get(PATIENCE_S)).offset == 1
            await admin.list_topics()

    async def limited(call):
        async with asyncio.timeout(PATIENCE_S / 3):
            return await call()

    asyncio.run(work())


@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_an_unreachable_broker_is_named_within_the_timeout(make):
    client = make("127.0.0.1:1")
    with pytest.raises(ConnectionFailed) as told:
        client.connect(timeout=0.5)
    assert (told.value.host, told.value.phase) == ("127.0.0.1:1", "connect")
    assert isinstance(told.value.cause, ConnectionRefusedError)
    client.close()


@pytest.mark.nightly
@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_an_unknown_host_is_named_at_once(make):
    client = make("no-such-host.invalid:9092")
    with pytest.raises(ConnectionFailed) as told:
        client.connect(timeout=PATIENCE_S)
    assert (told.value.host, told.value.phase) == ("no-such-host.invalid:9092", "resolve")
    client.close()


def test_connecting_to_a_host_that_never_answers_times_out():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = Producer(f"127.0.0.1:{mute.getsockname()[1]}")
        with pytest.raises(ConnectionFailed):
            client.connect(timeout=0.5)
        client.close()


def test_one_bootstrap_server_of_several_is_enough(broker, topic):
    with Producer(f"127.0.0.1:1,{broker.bootstrap}") as producer:
        assert producer.send(topic, value=b"v").result(PATIENCE_S).offset == 0


def test_an_asyncio_send_fails_if_no_broker_can_be_reached():
    async def work():
        async with aio.Producer("127.0.0.1:1", max_block_ms=300) as producer:
            with pytest.raises(ConnectionFailed):
                await producer.send("t", value=b"v")

    asyncio.run(work())


@pytest.mark.nightly
def test_unreachable_brokers_cause_only_a_few_log_lines(caplog):
    caplog.set_level(logging.WARNING)
    with Producer("127.0.0.1:1", max_block_ms=1500) as producer, pytest.raises(ConnectionFailed):
        producer.send("t", value=b"v")
    assert 1 <= len(caplog.records) <= 4


@pytest.mark.nightly
def test_nothing_is_written_to_stderr():
    text = """
from pyclient import Producer
from pyclient.errors import ConnectionFailed
import logging
logging.getLogger("pyclient").addHandler(logging.NullHandler())
try:
    with Producer("127.0.0.1:1", max_block_ms=300) as producer:
        producer.send("t", value=b"v")
except ConnectionFailed as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=PATIENCE_S, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"127.0.0.1:1: connect failed" in done.stdout


def test_records_metadata_and_errors_can_be_pickled(broker, producer, topic):
    metadata = producer.send(topic, value=b"v", key=b"k", headers=[("h", b"1")]).result(PATIENCE_S)
    (record,) = read_all(broker.bootstrap, topic)
    copy = pickle.loads(pickle.dumps(record))
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    assert [getattr(copy, name) for name in names] == [getattr(record, name) for name in names]
    again = pickle.loads(pickle.dumps(metadata))
    assert tuple(again) == tuple(metadata)
    with pytest.raises(ConnectionFailed) as told:
        Admin("127.0.0.1:1").connect(0.2)
    error = pickle.loads(pickle.dumps(told.value))
    assert (str(error), error.host, error.phase) == (str(told.value), told.value.host, told.value.phase)
    assert isinstance(error, KafkaError)


def test_clients_that_are_closed_leave_no_thread_and_no_socket(broker, topic):
    def held() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    def use() -> None:
        with Producer(broker.bootstrap) as producer, Consumer(broker.bootstrap) as consumer:
            producer.send(topic, value=b"v").result(PATIENCE_S)
            consumer.assign([TopicPartition(topic, 0)])
            consumer.poll(timeout=0.05)

    use()
    before = held()
    for _ in range(5):
        use()
    until(lambda: held() <= before, f"as few threads and files as {before}: {held()}")
