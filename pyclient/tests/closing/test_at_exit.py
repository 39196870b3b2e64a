"""An unclosed producer delivers when the program ends, or reports the lost records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pyclient.tests.closing.test_unclosed import REPOSITORY
from pyclient.tests.support import PATIENCE_S, read_all

pytestmark = pytest.mark.nightly

HEAD = """
import multiprocessing, os, sys, threading, time
from pyclient import Producer, aio
BOOTSTRAP, TOPIC = sys.argv[1:3]

def fill(count=1000, **settings):
    producer = Producer(BOOTSTRAP, linger_ms=60_000, **settings)
    for number in range(count):
        producer.send(TOPIC, b"%d" % number)
    return producer
"""


def run(broker, topic: str, text: str, code: int = 0) -> str:
    """Runs a program and returns what it writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + text, broker.bootstrap, topic],
        capture_output=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(REPOSITORY)])},
        text=True,
    )
    assert done.returncode == code, done.stderr
    return done.stderr


def numbers(broker, topic: str) -> list[int]:
    return sorted(int(record.value) for record in read_all(broker.bootstrap, topic))


STARTS_THREADS = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 2), reason="Python 3.12.0 and 3.12.1 begin no thread then (gh-113964)"
)


@pytest.mark.parametrize(
    "text",
    [
        "producer = fill()",
        "fill()",
        "sys.modules['uvloop'] = None; producer = fill()",
        pytest.param("import atexit; atexit.register(fill)", marks=STARTS_THREADS),
        pytest.param(
            "threading.Thread(target=lambda: (threading.main_thread().join(), fill())).start()", marks=STARTS_THREADS
        ),
        "threading.Thread(target=fill, daemon=True).start(); time.sleep(2)",
    ],
)
def test_an_unclosed_producer_delivers_at_the_end_of_the_program(broker, topic, text):
    assert run(broker, topic, text) == ""
    assert numbers(broker, topic) == list(range(1000))


def test_an_unclosed_producer_delivers_after_an_exception_or_sys_exit(broker, topic):
    assert "ZeroDivisionError" in run(broker, topic, "producer = fill(500); 1 / 0", 1)
    assert run(broker, topic, "producer = fill(500); sys.exit(3)", 3) == ""
    assert len(numbers(broker, topic)) == 1000


def test_a_child_of_multiprocessing_delivers_what_it_has_sent(broker, topic):
    text = "child = multiprocessing.get_context('fork').Process(target=fill); child.start(); child.join()"
    assert run(broker, topic, text) == ""
    assert numbers(broker, topic) == list(range(1000))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_forked_child_leaves_its_parents_records_to_the_parent(broker, topic, host):
    """The child ends normally, whatever threads the parent has."""
    calm = "import warnings\nwarnings.simplefilter('ignore')\n"  # of forks beside threads
    where = f"BOOTSTRAP = BOOTSTRAP.replace('127.0.0.1', {host!r})\n"
    text = f"{calm}{where}producer = fill()\nif os.fork():\n    sys.exit(os.wait()[1])\n"
    assert run(broker, topic, text) == ""
    assert numbers(broker, topic) == list(range(1000))


LOST = """
import signal
from pyclient.producer import at_exit
at_exit._left = 0.5
producer = Producer(BOOTSTRAP, linger_ms=60_000)
producer.send(TOPIC, b"delivered")
producer.flush()
os.kill(PID, signal.SIGSTOP)
for number in range(1000):
    producer.send(TOPIC, b"lost")
"""


def test_records_lost_at_the_end_of_the_program_are_counted_on_stderr(paused_broker):
    try:
        told = run(paused_broker, "t", f"PID = {paused_broker.pid}\n{LOST}")
    finally:
        os.kill(paused_broker.pid, signal.SIGCONT)
    assert told.count("was not closed: 1000 records are lost") == 1, told
    assert "close it" in told


OTHER = """
import signal
from pyclient.producer import at_exit
at_exit._left = 5
first = Producer(PAUSED, linger_ms=60_000)
first.send("t", b"delivered")
first.flush()
os.kill(PID, signal.SIGSTOP)
first.send("t", b"lost")
second = fill()
"""


def test_a_producer_whose_broker_hangs_does_not_keep_others_from_delivering(broker, topic, paused_broker):
    try:
        told = run(broker, topic, f"PAUSED, PID = {paused_broker.bootstrap!r}, {paused_broker.pid}\n{OTHER}")
    finally:
        os.kill(paused_broker.pid, signal.SIGCONT)
    assert told.count("was not closed") == told.count("was not closed: 1 record is lost") == 1, told
    assert numbers(broker, topic) == list(range(1000))


def test_records_refused_at_the_end_of_the_program_are_reported(broker, new_topic):
    topic = new_topic(1, {"max.message.bytes": "1000"})
    text = "producer = Producer(BOOTSTRAP, linger_ms=60_000); producer.send(TOPIC, b'x' * 2000)"
    told = run(broker, topic, text)
    assert "1 record is lost" in told, told
    assert f"{topic}-0: a batch of 1 record" in told


def test_an_open_transaction_at_the_end_of_the_program_is_reported(broker, topic):
    text = "producer = Producer(BOOTSTRAP, transactional_id=TOPIC); producer.begin_transaction()"
    assert run(broker, topic, text).count("its transaction is not committed") == 1


ASYNCIO = """
import asyncio
async def main():
    producer = aio.Producer(BOOTSTRAP, linger_ms=60_000)
    for number in range(10):
        await producer.send(TOPIC, b"%d" % number)
    return producer if KEPT else None
kept = asyncio.run(main())
"""


@pytest.mark.parametrize("kept", [True, False])
def test_records_that_a_closed_event_loop_cannot_deliver_are_reported(broker, topic, kept):
    told = run(broker, topic, f"KEPT = {kept}\n{ASYNCIO}import gc; gc.collect()")
    assert told.count("was not closed: 10 records are lost") == 1, told


def test_a_closed_producer_writes_nothing_at_the_end_of_the_program(broker, topic):
    assert run(broker, topic, "fill(10).close()") == ""
    assert numbers(broker, topic) == list(range(10))
