"""Errors for users of another client who call its method names."""

from __future__ import annotations

import asyncio
import pickle

import pytest

import pyclient
from cy.consume.records import Record, Records
from cy.other_name import OtherName
from cy.produce.producer_batch import begin
from pyclient import TopicPartition, aio
from pyclient.other_names import OF_ADMIN, OF_CONSUMER, OF_MODULE, OF_PRODUCER, knows


@knows(OF_PRODUCER)
class Mine:
    """A class with its own method, and the names of other clients as hints."""

    def send(self) -> str:
        return "mine"


FACES = [
    *((kind, OF_PRODUCER) for kind in (pyclient.Producer, aio.Producer)),
    *((kind, OF_CONSUMER) for kind in (pyclient.Consumer, aio.Consumer)),
    *((kind, OF_ADMIN) for kind in (pyclient.Admin, aio.Admin)),
]


@pytest.mark.parametrize(("kind", "others"), FACES)
def test_a_method_of_another_client_is_answered_with_its_name_here(kind, others) -> None:
    for name, here in others.items():
        other = getattr(kind, name)
        if not isinstance(other, OtherName):
            continue  # aio.Consumer.getone is there
        with pytest.raises(AttributeError) as caught:
            other.__get__(object(), kind)
        assert f"{kind.__name__!r} object has no attribute {name!r}: here it is {here}" in str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind, _ in FACES])
def test_tab_completion_does_not_offer_names_of_other_clients(kind) -> None:
    assert kind.__dir__ is Mine.__dir__
    assert "send" in dir(Mine())
    assert "produce" not in dir(Mine())
    assert not hasattr(Mine(), "produce")


def test_asyncio_methods_win_over_hints_about_other_clients() -> None:
    assert callable(aio.Consumer.getone)


def test_a_subclass_may_define_a_name_of_another_client() -> None:
    class Theirs(Mine):
        produce = Mine.send

    assert Theirs().produce() == "mine"


@pytest.mark.parametrize(("name", "here"), OF_MODULE.items())
def test_a_class_of_another_client_is_answered_with_its_name_here(name: str, here: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': here it is {here}"):
        getattr(pyclient, name)


@pytest.mark.parametrize(
    ("given", "name", "here"),
    [
        (begin("t", 0).append(0, b"", b""), "get", r"result\(timeout\)"),
        (begin("t", 0).append(0, b"", b""), "add_callback", r"on_delivery=f\), which calls f\(metadata, error\)"),
        (Record("t", 0, 0), "error", r"record\.value, without \(\)"),
        (Records(), "items", r"by_partition\(\)"),
        (Records(), "value", r"get\(\) one record"),
    ],
)
def test_a_result_method_of_another_client_is_answered_with_its_name_here(given, name: str, here: str) -> None:
    with pytest.raises(AttributeError, match=here):
        getattr(given, name)
    assert name not in dir(given)


SINCE_3_14 = "Did you mean to use"
"""A part of Python 3.14's own error, which names the statement that the class supports."""


@pytest.mark.parametrize("name", ["Consumer", "Producer", "Admin"])
def test_blocking_client_in_async_with_names_the_asyncio_one(name: str) -> None:
    async def enter() -> None:
        async with getattr(pyclient, name)("127.0.0.1:1"):
            pass

    ours = r"class of the same name in pyclient\.aio takes async with"
    with pytest.raises((AttributeError, TypeError), match=f"{ours}|{SINCE_3_14} 'with'"):
        asyncio.run(enter())


@pytest.mark.parametrize("name", ["Consumer", "Producer", "Admin"])
def test_asyncio_client_in_with_names_async_with(name: str) -> None:
    async def enter() -> None:
        client = getattr(aio, name)("127.0.0.1:1")
        try:
            with client:
                pass
        finally:
            await client.close()

    with pytest.raises((AttributeError, TypeError), match=f"here it is async with|{SINCE_3_14} 'async with'"):
        asyncio.run(enter())


def test_poll_with_milliseconds_says_how_to_write_seconds() -> None:
    async def poll() -> None:
        consumer = aio.Consumer("127.0.0.1:1")
        try:
            await consumer.poll(timeout_ms=500)
        finally:
            await consumer.close()

    told = "poll\\(\\) takes seconds: timeout=0.5, not timeout_ms=500"
    with pyclient.Consumer("127.0.0.1:1") as consumer, pytest.raises(TypeError, match=told):
        consumer.poll(timeout_ms=500)
    with pytest.raises(TypeError, match=told):
        asyncio.run(poll())


def test_the_error_about_an_offset_in_a_topic_partition_says_where_it_belongs() -> None:
    told = r"takes no offset: call seek\(TopicPartition\('t', 0\), 3\)"
    with pytest.raises(TypeError, match=told):
        TopicPartition("t", 0, 3)
    with pytest.raises(TypeError, match=told):
        TopicPartition("t", 0, offset=3)
    with pytest.raises(TypeError, match=r"TopicPartition\(\) missing 1 required positional argument: 'partition'"):
        TopicPartition("t")


def test_topic_partition_is_a_tuple_that_can_be_pickled() -> None:
    tp = TopicPartition(topic="t", partition=0)
    assert pickle.loads(pickle.dumps(tp)) == tp == ("t", 0) == TopicPartition._make(tp)
