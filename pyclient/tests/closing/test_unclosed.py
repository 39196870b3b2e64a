"""Clients created without a broker, and clients that are never closed."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyclient
from pyclient import Consumer, Producer, TopicPartition, aio
from pyclient.errors import ClientClosed, ConnectionFailed
from pyclient.tests.support import PATIENCE_S, take

REPOSITORY = Path(__file__).parents[3]
NOWHERE = "127.0.0.1:1"
SILENT = "(connect|handshake)"
"""A pattern of the phases that fail at a silent server. On a busy machine, even connecting may take too long."""
AFTER = r"after ([\d.]+) s\)"
"""The end of an error of a call with a timeout of its own. On a busy machine the call takes a little longer."""
ENDLESS = 3_600_000


def stderr_of(text: str, *options: str) -> str:
    """Runs a program and returns what it writes to stderr."""
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(REPOSITORY)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *options, "-c", text], capture_output=True, timeout=PATIENCE_S, env=environment, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Starts a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["Admin", "Consumer", "Producer"])
def test_connect_fails_within_its_timeout_if_no_broker_answers(kind, silent):
    for servers, phase in ((NOWHERE, "connect"), (address(silent), SILENT)):
        client = getattr(pyclient, kind)(servers)
        with pytest.raises(ConnectionFailed, match=rf"{phase} failed.* {AFTER}"):
            client.connect(timeout=0.5)
        client.close(0)


@pytest.mark.parametrize("kind", ["Admin", "Consumer", "Producer"])
def test_asyncio_connect_fails_within_its_timeout_if_no_broker_answers(kind, silent):
    async def check() -> None:
        for servers, phase in ((NOWHERE, "connect"), (address(silent), SILENT)):
            client = getattr(aio, kind)(servers)
            with pytest.raises(ConnectionFailed, match=rf"{phase} failed.* {AFTER}"):
                await client.connect(timeout=0.5)
            await client.close(0)

    asyncio.run(check())


def test_each_waiting_connect_keeps_its_own_timeout(silent):
    async def check() -> None:
        producer = aio.Producer(address(silent))
        waits = [asyncio.create_task(producer.connect(seconds)) for seconds in (0.2, 0.6)]
        lasted = []
        for wait in waits:
            with pytest.raises(ConnectionFailed, match=AFTER) as caught:
                await wait
            lasted += re.findall(AFTER, str(caught.value))
        first, second = map(float, lasted)
        assert first < second
        await producer.close(0)

    asyncio.run(check())


@pytest.mark.parametrize("kind", ["Admin", "Consumer", "Producer"])
def test_a_waiting_connect_ends_when_its_client_is_closed(kind, silent):
    async def check() -> None:
        client = getattr(aio, kind)(address(silent))
        wait = asyncio.create_task(client.connect(PATIENCE_S * 10))
        await asyncio.sleep(0)
        await client.close(0)
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(wait, PATIENCE_S)

    asyncio.run(check())


def test_offset_lookups_time_out_if_no_broker_answers(silent):
    place = TopicPartition("t", 0)
    with Consumer(address(silent), default_api_timeout_ms=ENDLESS) as consumer:
        for call in (consumer.beginning_offsets, consumer.end_offsets):
            with pytest.raises(ConnectionFailed, match=AFTER):
                call([place], timeout=0.2)
        with pytest.raises(ConnectionFailed, match=AFTER):
            consumer.offsets_for_times({place: 0}, timeout=0.2)


def test_creating_and_closing_a_consumer_does_not_wait():
    with Consumer(NOWHERE, group_id="g", topics=["t"], default_api_timeout_ms=ENDLESS) as consumer:
        assert consumer.subscription() == {"t"}
        assert consumer.poll(timeout=0.1) == []


def test_poll_raises_why_no_broker_is_reached_and_keeps_trying():
    with Consumer(NOWHERE, group_id="g", topics="t", default_api_timeout_ms=100) as consumer:
        for _ in range(2):
            with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
                consumer.poll()


def test_a_consumer_created_before_its_broker_starts_reads_its_records(own_broker, group):
    with Producer(own_broker.bootstrap) as producer:
        producer.send("t", b"0").result(PATIENCE_S)
    own_broker.kill()
    with Consumer(own_broker.bootstrap, group_id=group, topics=["t"], auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout=0.1) == []
        own_broker.start()
        assert [record.value for record in take(consumer, 1)] == [b"0"]


def test_an_asyncio_consumer_subscribes_at_creation_without_a_broker():
    async def check() -> None:
        consumer = aio.Consumer(NOWHERE, group_id="g", topics=["t"], default_api_timeout_ms=ENDLESS)
        assert consumer.subscription() == {"t"}
        assert await consumer.poll(timeout=0.1) == []
        await consumer.close()

    asyncio.run(check())


CLIENTS = """
from pyclient import Admin, Consumer, Producer
from pyclient.errors import KafkaError
consumer = Consumer("127.0.0.1:1", group_id="g", topics=["t"])
admin, producer = Admin("127.0.0.1:1"), Producer("127.0.0.1:1", max_block_ms=50)
try:
    producer.send("t", b"v")
except KafkaError:
    pass
"""


@pytest.mark.nightly
def test_an_unclosed_client_is_named_by_a_resource_warning():
    assert stderr_of(CLIENTS) == ""
    told = stderr_of(CLIENTS, "-W", "default::ResourceWarning")
    for owner in ("consumer of 127.0.0.1:1", "producer of 127.0.0.1:1", "pyclient.Admin"):
        assert f"ResourceWarning: a {owner} was not closed" in told
    assert "Task was destroyed" not in told


@pytest.mark.nightly
def test_a_client_without_references_is_stopped():
    end = "del consumer, admin, producer\nimport sys\nprint('end', file=sys.stderr)"
    told = stderr_of(CLIENTS + end, "-Wd")
    before, _, after = told.partition("end\n")
    assert before.count("was not closed") == 3, told
    assert after == ""


def dropped(producer):
    """Returns a weak reference to the producer, and its thread. The caller must drop its own reference."""
    return weakref.ref(producer), producer._runner._thread


def test_a_producer_without_references_delivers_and_is_collected(broker, topic):
    producer = Producer(broker.bootstrap, linger_ms=ENDLESS)
    reports = [producer.send(topic, b"v") for _ in range(10)]
    left, thread = dropped(producer)
    with pytest.warns(ResourceWarning, match="a producer of .* was not closed"):
        del producer
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [report.result(0).offset for report in reports] == list(range(10))
    del reports
    gc.collect()
    assert left() is None


def test_a_producer_in_a_reference_cycle_delivers_too(broker, topic):
    producer = Producer(broker.bootstrap, linger_ms=ENDLESS)
    producer.itself = producer
    report = producer.send(topic, b"v")
    _, thread = dropped(producer)
    del producer
    with pytest.warns(ResourceWarning, match="a producer of .* was not closed"):
        gc.collect()
    assert report.result(PATIENCE_S).offset == 0
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*was not closed:ResourceWarning")
def test_a_producer_without_references_reports_what_it_could_not_deliver(own_broker, caplog):
    times = {"delivery_timeout_ms": 1000, "request_timeout_ms": 500}
    producer = Producer(own_broker.bootstrap, linger_ms=500, **times)
    producer.send("t", b"v").result(PATIENCE_S)
    own_broker.kill()
    producer.send_many("t", [b"v"] * 7)
    _, thread = dropped(producer)
    del producer
    thread.join(PATIENCE_S)
    assert caplog.text.count("was not closed: 7 records are lost") == 1, caplog.text


def test_a_closed_producer_is_collected(broker, topic):
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"v")
    left, _ = dropped(producer)
    del producer
    gc.collect()
    assert left() is None


def test_an_asyncio_producer_is_collected_when_closed_or_without_references(broker, topic):
    async def check(closes: bool) -> None:
        producer = aio.Producer(broker.bootstrap, linger_ms=ENDLESS)
        report = await producer.send(topic, b"v")
        gone = asyncio.Event()
        weakref.finalize(producer, asyncio.get_running_loop().call_soon_threadsafe, gone.set)
        if closes:
            await producer.close()
        del producer
        await asyncio.wait_for(report, PATIENCE_S)
        await asyncio.sleep(0)
        while not gone.is_set():
            await asyncio.sleep(0)
            gc.collect()

    asyncio.run(asyncio.wait_for(check(True), PATIENCE_S))
    with pytest.warns(ResourceWarning, match="a producer of .* was not closed"):
        asyncio.run(asyncio.wait_for(check(False), PATIENCE_S))


ASYNCIO = """
import asyncio
from pyclient import aio

async def work():
    consumer = aio.Consumer("127.0.0.1:1", group_id="g", topics=["t"])
    clients = [consumer, aio.Admin("127.0.0.1:1"), aio.Producer("127.0.0.1:1")]
    if CLOSES:
        for client in clients:
            await client.close()

asyncio.run(work())
"""


@pytest.mark.nightly
def test_an_unclosed_asyncio_client_is_named_by_a_resource_warning():
    assert stderr_of(f"CLOSES = False{ASYNCIO}") == ""
    assert stderr_of(f"CLOSES = True{ASYNCIO}", "-Wd") == ""
    told = stderr_of(f"CLOSES = False{ASYNCIO}", "-Wd")
    for owner in ("consumer of 127.0.0.1:1", "producer of 127.0.0.1:1", "pyclient.aio.Admin"):
        assert told.count(f"ResourceWarning: a {owner} was not closed") == 1, told
    assert "Task was destroyed" not in told


@pytest.mark.filterwarnings("ignore:.*was not closed:ResourceWarning")
@pytest.mark.parametrize("kind", ["Admin", "Consumer"])
def test_an_asyncio_client_without_references_is_stopped(kind, silent):
    """Its connection is gone while the loop still runs."""

    async def check() -> None:
        client = getattr(aio, kind)(address(silent), default_api_timeout_ms=ENDLESS)
        with pytest.raises(ConnectionFailed):
            await client.connect(timeout=0.5)
        del client
        gc.collect()
        silent.setblocking(False)
        loop = asyncio.get_running_loop()
        connection, _ = await asyncio.wait_for(loop.sock_accept(silent), PATIENCE_S)
        with connection:
            connection.setblocking(False)
            while await asyncio.wait_for(loop.sock_recv(connection, 1000), PATIENCE_S):
                pass

    asyncio.run(check())
