"""Mistakes of newcomers: each error says what to write, or which setting to change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition, aio
from pyclient.admin.results import Results
from pyclient.admin.types import NewTopic
from pyclient.errors import ClientClosed, ConnectionFailed
from pyclient.protocol.errors import GroupIdNotFound

NOWHERE = "127.0.0.1:1"


FAILED = r"127\.0\.0\.1:1: connect failed.* \(still failing after 0\.\d+ s"


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.list_topics(),
        lambda admin: admin.create_topics("t"),
        lambda admin: admin.list_consumer_groups(),
        lambda admin: admin.list_transactions(),
        lambda admin: admin.describe_log_dirs(),
    ],
)
def test_the_error_of_an_admin_without_a_broker_names_the_time_and_its_setting(call) -> None:
    told = rf"{FAILED}; the limit is default\.api\.timeout\.ms; "
    with Admin(NOWHERE, default_api_timeout_ms=300) as admin, pytest.raises(ConnectionFailed, match=told):
        call(admin)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (Admin, lambda client: client.connect(0.3)),
        (Admin, lambda client: client.list_topics(timeout=0.3)),
        (Consumer, lambda client: client.connect(0.3)),
        (Producer, lambda client: client.connect(0.3)),
        (Producer, lambda client: client.partitions_for("t", timeout=0.3)),
    ],
)
def test_call_with_a_timeout_of_its_own_names_no_setting(kind, call) -> None:
    with kind(NOWHERE) as client, pytest.raises(ConnectionFailed, match=rf"{FAILED}\)$"):
        call(client)


def test_the_default_error_of_one_item_names_the_item() -> None:
    for key in ("nosuch", TopicPartition("t", 0)):
        with pytest.raises(GroupIdNotFound, match=rf"^{key}: The group id does not exist\.$"):
            Results(errors={key: GroupIdNotFound()}).checked()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda admin: admin.create_topics("t", config={}), r"has no argument 'config': did you mean configs\?"),
        (lambda admin: admin.create_topics([{"name": "x"}]), r"\{'name': 'x'\} is neither .* NewTopic\(name, num_part"),
        (lambda admin: admin.create_topics(None), "None is neither a topic's name nor a NewTopic"),
        (lambda admin: admin.delete_topics(None), "None is neither a name nor a list of names"),
        (lambda admin: admin.delete_topics(b"t"), "b't' is neither a name nor a list of names: a name is a str"),
        (lambda admin: admin.delete_topics(["t", b"u"]), "b'u' is not a name: a name is a str"),
        (lambda admin: admin.create_topics(b"t"), "b't' is neither a topic's name nor a NewTopic"),
        (lambda admin: admin.create_topics([NewTopic(b"t")]), r"NewTopic\(b't'\): a name is a str"),
        (lambda admin: admin.create_partitions({b"t": 2}), "b't' is not a name: a name is a str"),
    ],
)
def test_a_wrong_argument_of_the_admin_client_is_answered_with_the_right_one(call, told: str) -> None:
    with Admin(NOWHERE) as admin, pytest.raises(TypeError, match=told):
        call(admin)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (Producer, lambda client: client.send("t", b"v")),
        (Producer, lambda client: client.connect()),
        (Consumer, lambda client: client.poll(timeout=0)),
        (Admin, lambda client: client.list_topics()),
    ],
)
def test_an_error_names_the_closed_client(kind, call) -> None:
    client = kind(NOWHERE, client_id="mine")
    client.close()
    told = r"^The client is closed: client\.id mine of 127\.0\.0\.1:1$"
    with pytest.raises(ClientClosed, match=told):
        call(client)


@pytest.mark.parametrize(
    ("kind", "call", "told"),
    [
        (Consumer, lambda client: client.seek("t", 0, 0), r"^Consumer\.seek\(\) takes 3 positional arguments"),
        (Producer, lambda client: client.metrics(1), r"^Producer\.metrics\(\) takes 1 positional argument"),
        (Admin, lambda client: client.create_partitions("t", 1), r"^Admin\.create_partitions\(\) takes 2 positional"),
    ],
)
def test_python_names_the_public_class_in_its_errors_about_arguments(kind, call, told: str) -> None:
    with kind(NOWHERE) as client, pytest.raises(TypeError, match=told):
        call(client)


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.send("t"),
        lambda producer: producer.send("t", headers={"name": b"v"}),
        lambda producer: producer.send_and_wait("t"),
        lambda producer: producer.send_and_wait("t", timeout=0.3),
    ],
)
def test_record_of_nothing_is_sent_only_if_value_none_says_so(call) -> None:
    told = "^send needs a value or a key: pass value=None for a record with neither$"
    with Producer(NOWHERE) as producer, pytest.raises(TypeError, match=told):
        call(producer)

    async def send() -> None:
        async with aio.Producer(NOWHERE) as producer:
            with pytest.raises(TypeError, match=told):
                await call(producer)

    asyncio.run(send())


def test_report_of_the_asyncio_producer_without_await_says_to_await_it() -> None:
    async def send() -> None:
        producer = aio.Producer(NOWHERE)
        sending = producer.send("t", b"v")
        try:
            with pytest.raises(AttributeError, match=r"'result': here it is await: report = await producer\.send"):
                sending.result()
            assert "result" not in dir(sending)
        finally:
            sending.close()
            await producer.close()

    asyncio.run(send())


def test_plain_iteration_of_the_asyncio_consumer_names_async_for() -> None:
    async def iterate() -> None:
        consumer = aio.Consumer(NOWHERE)
        with pytest.raises(TypeError, match="write `async for record in consumer`"):
            list(consumer)
        assert isinstance(consumer, AsyncIterable)
        assert not isinstance(consumer, Iterable)
        await consumer.close()

    asyncio.run(iterate())
