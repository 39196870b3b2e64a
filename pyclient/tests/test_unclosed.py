"""Clients that are made without a broker, and clients that nobody closes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyclient import Consumer, Producer, aio
from pyclient.errors import ConnectionFailed
from pyclient.tests.support import PATIENCE_S, take

REPOSITORY = Path(__file__).parents[2]
NOWHERE = "127.0.0.1:1"
ENDLESS = 3_600_000


def stderr_of(text: str, *options: str) -> str:
    """What a program writes there."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, *options, "-c", text], capture_output=True, timeout=PATIENCE_S, env=environment, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_consumer_is_made_without_waiting_and_closed_without_waiting():
    with Consumer(NOWHERE, group_id="g", topics=["t"], default_api_timeout_ms=ENDLESS) as consumer:
        assert consumer.subscription() == {"t"}
        assert consumer.poll(timeout=0.1) == []


def test_poll_raises_why_no_broker_is_reached_and_goes_on_trying():
    with Consumer(NOWHERE, group_id="g", topics="t", default_api_timeout_ms=100) as consumer:
        for _ in range(2):
            with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
                consumer.poll()


def test_a_consumer_that_was_made_before_its_broker_reads(own_broker, group):
    with Producer(own_broker.bootstrap) as producer:
        producer.send("t", b"0").result(PATIENCE_S)
    own_broker.kill()
    with Consumer(own_broker.bootstrap, group_id=group, topics=["t"], auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout=0.1) == []
        own_broker.start()
        assert [record.value for record in take(consumer, 1)] == [b"0"]


def test_an_asyncio_consumer_subscribes_beside():
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


def test_what_was_not_closed_is_named_where_that_is_wanted():
    assert stderr_of(CLIENTS) == ""
    told = stderr_of(CLIENTS, "-W", "default::ResourceWarning")
    for owner in ("consumer of 127.0.0.1:1", "producer of 127.0.0.1:1", "admin client"):
        assert f"ResourceWarning: a {owner} was not closed" in told
    assert "Task was destroyed" not in told


def test_a_client_that_nobody_has_any_more_is_ended():
    end = "del consumer, admin\nproducer.close()\nimport sys\nprint('end', file=sys.stderr)"
    told = stderr_of(CLIENTS + end, "-Wd")
    before, _, after = told.partition("end\n")
    assert before.count("was not closed") == 2, told
    assert after == ""
