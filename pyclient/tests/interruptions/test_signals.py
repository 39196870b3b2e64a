"""Methods that a signal handler may call at any moment, because a handler runs between two instructions."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import threading

import pytest

from cy.client.held_signals import are_held
from pyclient import Consumer, Producer, TopicPartition, aio
from pyclient.errors import WakeupError
from pyclient.tests.support import PATIENCE_S

EARLIEST = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 1}
STEP_S = 30.0
"""More seconds than a poll without a wait takes on any machine."""


def called_at(step, function, work):
    """Calls ``work()``, and ``function()`` in the same thread before instruction number ``step`` of it. Returns the
    result of ``work``, and whether it had so many instructions.
    """
    left = step

    def trace(frame, event, _):
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(None)
                function()
        return trace if left > 0 else None

    sys._getframe().f_trace_opcodes = True  # before: Python 3.12 has no such events otherwise
    sys.settrace(trace)
    try:
        return work(), left <= 0
    finally:
        sys.settrace(None)


def is_woken(consumer):
    """Returns whether ``wakeup`` ended the poll."""
    try:
        consumer.poll(timeout=0)
    except WakeupError:
        return True
    return False


def test_wakeup_works_at_any_instruction_of_a_poll(broker, topic):
    """With a lock that a poll holds, the handler would wait for the thread that it interrupts."""
    consumer = Consumer(broker.bootstrap)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        steps, lost = 0, []

        def interrupt():
            nonlocal steps
            for step in itertools.count(1):
                found, was_called = called_at(step, consumer.wakeup, lambda: is_woken(consumer))
                if not was_called:
                    return
                if not found and not is_woken(consumer):
                    lost.append(step)
                steps = step

        worker = threading.Thread(target=interrupt, daemon=True)
        worker.start()
        before = -1
        while worker.is_alive():
            assert steps > before, f"it hangs at step {steps + 1}"
            before = steps
            worker.join(STEP_S)
        assert steps > 50
        assert not lost
    finally:
        consumer.close(timeout=1)


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt, which would stop pytest."""


def raised_at(step, work):
    """Calls ``work()``, in which the client's call number ``step`` raises as a signal handler may. Returns the result,
    or None if that call raised, and whether there were so many calls. Handlers run where a function begins, and after a
    call into C, but not while signals are held.
    """
    left = step

    def count(frame, event, _):
        nonlocal left
        left -= event in ("call", "c_return") and frame.f_code.co_filename != __file__ and not are_held()
        if left == 0:
            sys.setprofile(None)
            raise Interrupt

    sys.setprofile(count)
    try:
        return work(), False
    except Interrupt:
        return None, True
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("read", ["poll", "get", "iterate", "poll_arrow"])
def test_an_interrupted_poll_skips_no_record(broker, topic, read):
    """The application catches Ctrl-C and polls again. The next poll returns the records that it did not get, and
    nothing commits them before.
    """
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(1000)]).result(PATIENCE_S)
    place = TopicPartition(topic, 0)
    with Consumer(broker.bootstrap, group_id=topic, max_poll_records=1, **EARLIEST) as consumer:
        consumer.assign([place])
        iterations = [iter(consumer)]

        def iterate():
            try:
                return [next(iterations[-1]).offset]
            except Interrupt:
                iterations.append(iter(consumer))
                raise

        work = {
            "poll": lambda: [record.offset for record in consumer.poll()],
            "get": lambda: [consumer.get().offset],
            "iterate": iterate,
            "poll_arrow": lambda: consumer.poll_arrow(max_rows=1)["offset"].to_pylist(),
        }[read]
        seen, was_interrupted, step = work(), True, 0
        while was_interrupted:
            step += 1
            found, was_interrupted = raised_at(step, work)
            seen += found or []
            consumer.commit()
            assert consumer.committed([place])[place].offset <= seen[-1] + 1
            seen += work()
        assert seen == list(range(len(seen)))
        assert step > 10


@pytest.fixture
def alarm():
    """Returns a function that makes SIGALRM call a function after some seconds, in the thread that runs the loop."""
    before = signal.getsignal(signal.SIGALRM)

    def at(seconds, function):
        signal.signal(signal.SIGALRM, lambda *_: function())
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield at
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["thread", "signal"])
def test_wakeup_of_an_asyncio_consumer_wakes_the_event_loop(broker, topic, alarm, where):
    """The loop itself must wake, because it has no other event for a minute."""

    async def work():
        settings = {"fetch_max_wait_ms": 120_000, "request_timeout_ms": 300_000, "metadata_max_age_ms": 600_000}
        async with aio.Consumer(broker.bootstrap, **settings) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            assert not await consumer.poll(timeout=1)
            loop = asyncio.get_running_loop()
            began = loop.time()
            if where == "thread":
                threading.Timer(0.3, consumer.wakeup).start()
            else:
                alarm(0.3, consumer.wakeup)
            with pytest.raises(WakeupError):
                await consumer.poll()
            assert loop.time() - began < 60

    asyncio.run(work())


def test_wakeup_of_a_closed_consumer_is_harmless(broker):
    async def work():
        async with aio.Consumer(broker.bootstrap) as consumer:
            return consumer

    asyncio.run(work()).wakeup()
