"""A timeout that is text or a timedelta is refused with an error that names it, before anything waits or is sent."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from cy.produce.deliveries import Deliveries
from cy.produce.producer_batch import begin
from cy.seconds import seconds
from pyclient import Admin, Consumer, Producer, TopicPartition, aio

NOWHERE = "127.0.0.1:1"
PLACE = TopicPartition("t", 0)
NO_TIMEOUTS: tuple[Any, ...] = ("1", timedelta(seconds=1), [1])
CALLS: tuple[tuple[Any, dict[str, Any], Any], ...] = (
    (aio.Consumer, {"topics": "t"}, lambda consumer, timeout: consumer.poll(timeout)),
    (aio.Consumer, {"topics": "t"}, lambda consumer, timeout: consumer.get(timeout)),
    (aio.Consumer, {"topics": "t"}, lambda consumer, timeout: consumer.poll_arrow(timeout=timeout)),
    (aio.Consumer, {}, lambda consumer, timeout: consumer.connect(timeout)),
    (aio.Consumer, {"group_id": "g"}, lambda consumer, timeout: consumer.commit({PLACE: 1}, timeout)),
    (aio.Consumer, {"group_id": "g"}, lambda consumer, timeout: consumer.committed([PLACE], timeout)),
    (aio.Consumer, {}, lambda consumer, timeout: consumer.position(PLACE, timeout)),
    (aio.Consumer, {}, lambda consumer, timeout: consumer.beginning_offsets([PLACE], timeout)),
    (aio.Consumer, {}, lambda consumer, timeout: consumer.end_offsets([PLACE], timeout)),
    (aio.Consumer, {}, lambda consumer, timeout: consumer.offsets_for_times({PLACE: 1}, timeout)),
    (aio.Consumer, {}, lambda consumer, timeout: consumer.close(timeout)),
    (aio.Producer, {}, lambda producer, timeout: producer.connect(timeout)),
    (aio.Producer, {}, lambda producer, timeout: producer.flush(timeout)),
    (aio.Producer, {}, lambda producer, timeout: producer.send_and_wait("t", b"", timeout=timeout)),
    (aio.Producer, {}, lambda producer, timeout: producer.partitions_for("t", timeout)),
    (aio.Producer, {}, lambda producer, timeout: producer.close(timeout)),
    (aio.Admin, {}, lambda admin, timeout: admin.connect(timeout)),
    (aio.Admin, {}, lambda admin, timeout: admin.list_topics(timeout=timeout)),
    (aio.Admin, {}, lambda admin, timeout: admin.close(timeout)),
)
BLOCKING = {aio.Consumer: Consumer, aio.Producer: Producer, aio.Admin: Admin}
"""The blocking client with the same methods, for each asyncio client."""


@pytest.mark.parametrize("given", NO_TIMEOUTS)
@pytest.mark.parametrize(("kind", "settings", "call"), CALLS)
def test_a_blocking_call_refuses_a_timeout_that_is_not_a_number(kind, settings, call, given) -> None:
    with BLOCKING[kind](NOWHERE, **settings) as client, pytest.raises(TypeError) as caught:
        call(client, given)
    assert str(caught.value) == f"timeout must be seconds as a number, not {given!r}"


@pytest.mark.parametrize("given", NO_TIMEOUTS)
@pytest.mark.parametrize(("kind", "settings", "call"), CALLS)
def test_a_coroutine_refuses_a_timeout_that_is_not_a_number(kind, settings, call, given) -> None:
    async def check() -> None:
        client = kind(NOWHERE, **settings)
        try:
            with pytest.raises(TypeError) as caught:
                await call(client, given)
        finally:
            await client.close()
        assert str(caught.value) == f"timeout must be seconds as a number, not {given!r}"

    asyncio.run(check())


@pytest.mark.parametrize("given", NO_TIMEOUTS)
def test_result_refuses_a_timeout_that_is_not_a_number(given) -> None:
    report = begin("t", 0).append(0, None, b"v")
    for result in (report.result, Deliveries(0, 0).result):
        with pytest.raises(TypeError) as caught:
            result(given)
        assert str(caught.value) == f"timeout must be seconds as a number, not {given!r}"


def test_numbers_are_accepted_as_seconds() -> None:
    assert seconds(None) is None
    assert [seconds(given) for given in (0, 1.5, True)] == [0.0, 1.5, 1.0]


@pytest.mark.parametrize("given", ["3", 2.5, [3]])
def test_max_records_must_be_an_int(given: Any) -> None:
    with Consumer(NOWHERE, topics="t") as consumer:
        with pytest.raises(TypeError, match=r"^max_records must be a number of records, not "):
            consumer.poll(1, given)
        with pytest.raises(TypeError, match=r"^max_rows must be a number of records, not "):
            consumer.poll_arrow(given, 1)
