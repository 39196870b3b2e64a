"""One record at a time, acknowledged: the thread that waits does the sending itself (``producer.inline_send``)."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path

import pytest

from pyclient import Producer
from pyclient.errors import ClientForked
from pyclient.tests.interruptions.test_interrupts import told
from pyclient.tests.support import PATIENCE_S, read_all
from pyclient.tests.test_processes import in_child

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def producer(broker):
    with Producer(broker.bootstrap, linger_ms=0) as made:
        yield made


def numbered(producer, topic, numbers, **settings):
    """Sends the numbers one after the other and returns their offsets."""
    return [
        producer.send(topic, value=b"%d" % number, **settings).result(PATIENCE_S).offset
        for number in numbers
    ]


def threads_of_leases(producer, monkeypatch):
    """Returns a list of the threads that were lent the loop's place, which grows with each lease."""
    found = []
    lend = producer._runner.lease._lend
    monkeypatch.setattr(producer._runner.lease, "_lend", lambda *given: (found.append(given[0]), lend(*given)))
    return found


def test_records_are_in_order_and_the_calling_thread_ran_the_loop(broker, producer, topic, monkeypatch):
    lent = threads_of_leases(producer, monkeypatch)
    assert numbered(producer, topic, range(500)) == list(range(500))
    assert set(lent) == {threading.get_ident()}
    assert [record.value for record in read_all(broker.bootstrap, topic)] == [b"%d" % n for n in range(500)]


def test_threads_that_wait_for_reports_at_once_do_not_interfere(broker, producer, topic):
    offsets: list[list[int]] = [[] for _ in range(4)]

    def work(mine):
        mine += numbered(producer, topic, range(300))

    workers = [threading.Thread(target=work, args=(mine,)) for mine in offsets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(chain(*offsets)) == list(range(1200))
    assert all(mine == sorted(mine) for mine in offsets)


def test_records_sent_without_waiting_are_delivered_too(broker, producer, topic):
    """The tenant and another thread send without waiting, between two waits, and with callbacks."""
    ending, told = threading.Event(), []

    def fire():
        while not ending.is_set():
            producer.send(topic, value=b"fired", on_delivery=lambda *_: told.append(threading.current_thread()))
            ending.wait(0.002)

    other = threading.Thread(target=fire)
    other.start()
    for number in range(300):
        numbered(producer, topic, [number])
        if number % 10 == 0:
            producer.send(topic, value=b"left")
    ending.set()
    other.join()
    producer.flush(PATIENCE_S)
    values = [record.value for record in read_all(broker.bootstrap, topic)]
    assert (values.count(b"left"), values.count(b"fired")) == (30, len(told))
    assert {thread.name for thread in told} <= {"pyclient-io"}


def test_a_callback_runs_on_the_clients_thread_and_cannot_wait(producer, topic):
    numbered(producer, topic, range(20))
    found = []

    def on_delivery(metadata, error):
        try:
            producer.flush()
        except RuntimeError as refusal:
            found.append((threading.current_thread().name, str(refusal)))

    for _ in range(20):
        producer.send(topic, value=b"v", on_delivery=on_delivery).result(PATIENCE_S)
    producer.flush(PATIENCE_S)
    assert found == [("pyclient-io", "a blocking call in a callback would wait for itself")] * 20


def test_other_calls_get_the_loop_back(producer, topic):
    for _ in range(50):
        numbered(producer, topic, range(3))
        assert len(producer.partitions_for(topic)) == 1
        assert producer.send_many(topic, [b"a", b"b"]).result(PATIENCE_S) == 2


def test_a_transaction_may_wait_for_each_record(broker, topic):
    with Producer(broker.bootstrap, transactional_id=topic, linger_ms=0) as producer:
        for number in range(5):
            with producer.transaction():
                numbered(producer, topic, range(10 * number, 10 * number + 10))
    found = read_all(broker.bootstrap, topic, isolation_level="read_committed")
    assert [int(record.value) for record in found] == list(range(50))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_call_in_a_forked_child_fails_and_the_parent_continues(paused_broker, topic):
    with Producer(paused_broker.bootstrap, linger_ms=0) as producer:
        numbered(producer, topic, range(20))
        os.kill(paused_broker.pid, signal.SIGSTOP)  # no ack comes before the fork
        try:
            report = producer.send(topic, value=b"20")
            assert ClientForked.__name__ in in_child(lambda: report.result(PATIENCE_S))
        finally:
            os.kill(paused_broker.pid, signal.SIGCONT)
        assert report.result(PATIENCE_S).offset == 20
        assert numbered(producer, topic, range(5)) == list(range(21, 26))


def test_single_records_are_delivered_after_a_broker_restart(own_broker):
    with Producer(own_broker.bootstrap, linger_ms=0) as producer:
        numbered(producer, "restarted", range(20))
        own_broker.kill()
        report = producer.send("restarted", value=b"20")
        own_broker.start()
        assert report.result(PATIENCE_S).offset == 20
        assert numbered(producer, "restarted", range(20)) == list(range(21, 41))


INTERRUPTED = """
import sys
from pyclient import Producer

def write(number):
    while True:
        number += 1
        acked.append((number, producer.send(topic, value=b"%d" % number).result({patience}).offset))

bootstrap, topic, times = sys.argv[1:]
acked = []
with Producer(bootstrap, linger_ms=0) as producer:
    producer.send(topic, value=b"0").result({patience})
    number = 0
    for _ in range(int(times)):
        try:
            print("ready", flush=True)
            write(number)
        except KeyboardInterrupt:
            number = max(number, acked[-1][0] if acked else 0) + 10
with open(1, "w", closefd=False) as out:  # more than a pipe holds, which PYTHONUNBUFFERED would cut
    print(acked, file=out)
"""


@pytest.mark.nightly
def test_ctrl_c_between_any_two_records_loses_none(broker, topic):
    times = 60
    arguments = [broker.bootstrap, topic, str(times)]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(patience=PATIENCE_S), *arguments],
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        try:
            for number in range(times):
                assert told(process) == "ready"
                threading.Event().wait(0.002 + number * 0.0003)
                process.send_signal(signal.SIGINT)
            acked = ast.literal_eval(told(process))
        finally:
            process.kill()
    written = [int(record.value) for record in read_all(broker.bootstrap, topic)]
    assert written == sorted(set(written))
    assert all(written[offset] == number for number, offset in acked)
