"""``aio.Producer.send`` is always a coroutine: for a topic that is not known yet, for one that is, in a full buffer."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
import weakref

import pytest

from pyclient import aio
from pyclient.errors import InvalidTopicException
from pyclient.tests.support import PATIENCE_S, read_all

COUNT = 4


def values(broker, topic):
    return [bytes(record.value) for record in read_all(broker.bootstrap, topic)]


def run(broker, work, **settings):
    async def main():
        async with aio.Producer(broker.bootstrap, **settings) as producer:
            return await asyncio.wait_for(work(producer), PATIENCE_S)

    return asyncio.run(main())


def some(producer, topic):
    return [producer.send(topic, b"%d" % number) for number in range(COUNT)]


async def by_tasks(producer, topic):
    for number in range(COUNT):
        await asyncio.create_task(producer.send(topic, b"%d" % number))


async def by_group(producer, topic):
    async with asyncio.TaskGroup() as group:
        for sending in some(producer, topic):
            group.create_task(sending)


async def by_wait_for(producer, topic):
    for sending in some(producer, topic):
        await asyncio.wait_for(sending, PATIENCE_S)


async def by_gather(producer, topic):
    await asyncio.gather(*some(producer, topic))


async def by_shield(producer, topic):
    for sending in some(producer, topic):
        await asyncio.shield(sending)


async def by_await(producer, topic):
    for sending in some(producer, topic):
        await sending


async def by_python_tasks(producer, topic):
    for sending in some(producer, topic):
        await asyncio.tasks._PyTask(sending)


WAYS = [by_tasks, by_group, by_wait_for, by_gather, by_shield, by_await]
if sys.version_info < (3, 14):  # whose asyncio.timeout knows no task that is written in Python
    WAYS.append(by_python_tasks)


@pytest.mark.parametrize("way", WAYS)
def test_each_record_is_sent_once_however_its_coroutine_is_run(broker, topic, way):
    run(broker, lambda producer: way(producer, topic))
    assert sorted(values(broker, topic)) == [b"%d" % number for number in range(COUNT)]


def test_a_send_that_is_never_awaited_sends_nothing_and_warns(broker, topic):
    async def work(producer):
        for _ in range(2):
            gc.collect()  # what others have left warns before
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                producer.send(topic, b"forgotten")
                gc.collect()
            assert ["never awaited" in str(warning.message) for warning in told] == [True]
            await producer.send(topic, b"awaited")

    run(broker, work)
    assert values(broker, topic) == [b"awaited"] * 2


class Value(bytearray):
    """A value with weak references."""


def test_a_send_that_is_never_awaited_is_freed_even_if_warnings_are_errors(monkeypatch):
    async def work():
        values = [Value(b"forgotten") for _ in range(3)]
        producer = aio.Producer("127.0.0.1:1")
        for value in values:
            producer.send("t", value)
        left = [weakref.ref(each) for each in values]
        del values[:], value
        await producer.close(0)
        assert [each() for each in left] == [None] * 3

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_type))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        asyncio.run(work())
    assert told == [RuntimeWarning] * 3


def test_a_record_that_cannot_be_appended_is_freed_although_its_coroutine_is_kept():
    async def work():
        value, callback = Value(b"v"), lambda metadata, error: None
        async with aio.Producer("127.0.0.1:1") as producer:
            sending = producer.send("t", value, timestamp=-1, on_delivery=callback)
            left = [weakref.ref(value), weakref.ref(callback)]
            del value, callback
            with pytest.raises(ValueError, match="below 0"):
                await sending
            assert [each() for each in left] == [None, None]

    asyncio.run(work())


def test_a_send_cancelled_or_closed_before_it_ran_sends_nothing(broker, topic):
    async def work(producer):
        await producer.send(topic, b"known")
        task = asyncio.create_task(producer.send(topic, b"cancelled"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        producer.send(topic, b"closed").close()

    run(broker, work)
    assert values(broker, topic) == [b"known"]


def test_a_send_cancelled_while_it_waits_for_memory_sends_nothing(broker, topic):
    async def work(producer):
        await producer.send(topic, b"known")
        sent = timed_out = 0
        while not timed_out:
            try:
                await asyncio.wait_for(producer.send(topic, bytes(3000)), 0)
                sent += 1
            except TimeoutError:
                timed_out += 1
        return sent

    sent = run(broker, work, buffer_memory=20_000, batch_size=4000, linger_ms=200)
    assert len(values(broker, topic)) == 1 + sent


def test_tasks_send_in_the_order_in_which_they_were_created(broker, topic):
    """The loop runs once after each 256 KiB. Records after one that waits must wait too."""
    count = 2000

    async def work(producer):
        await producer.partitions_for(topic)
        await asyncio.gather(*(producer.send(topic, b"%d" % number + bytes(500)) for number in range(count)))

    run(broker, work)
    assert [int(value.rstrip(b"\0")) for value in values(broker, topic)] == list(range(count))


def test_a_send_coroutine_cannot_be_awaited_twice(broker, topic):
    async def work(producer):
        for _ in range(2):
            sending = producer.send(topic, b"once")
            await sending
            with pytest.raises(RuntimeError, match="cannot reuse"):
                await sending

    run(broker, work)
    assert values(broker, topic) == [b"once"] * 2


def test_errors_are_raised_where_the_coroutine_is_awaited(broker, topic):
    async def work(producer):
        for _ in range(2):
            wrong, nameless = producer.send(topic, 5), producer.send("", b"v")
            with pytest.raises(TypeError):
                await wrong
            with pytest.raises(InvalidTopicException):
                await nameless
            await producer.send(topic, b"v")

    run(broker, work)
    assert values(broker, topic) == [b"v"] * 2


def test_the_result_of_send_is_recognised_as_a_coroutine(broker, topic):
    async def work(producer):
        for _ in range(2):
            sending = producer.send(topic, b"v")
            assert asyncio.iscoroutine(sending)
            task = asyncio.create_task(sending)
            assert "Producer.send" in repr(task)
            await task

    run(broker, work)
