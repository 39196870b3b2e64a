"""Which topics the metadata keeper requests, when, and whether the broker may create them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pyclient.core.backoff import Backoff
from pyclient.core.cluster import Cluster
from pyclient.core.metadata import MetadataKeeper
from pyclient.core.reports.last_resort import URGENT
from pyclient.core.reports.outages import FIRST_S
from pyclient.errors import KafkaError
from pyclient.protocol import Metadata
from pyclient.protocol.errors import UnknownTopicOrPartition
from pyclient.tests.support import PATIENCE_S

IDLE_S = 300.0
UNKNOWN = UnknownTopicOrPartition.code


class World:
    """A broker that answers at once, a manual clock, and a keeper. ``used``: the topics in use."""

    def __init__(self, *topics: str) -> None:
        self.topics = set(topics)
        self.asked: list[Metadata.Request] = []
        self.used: dict[str, bool] = {}
        self.later = 0.0
        loop = asyncio.get_running_loop()
        self.clock = lambda: loop.time() + self.later
        self.keeper = MetadataKeeper(
            Cluster(), self._ask, lambda: Backoff(0.001, 1000.0, lambda: 0.5), 1000.0, IDLE_S, self.clock, loop
        )
        self.keeper.in_use = lambda: self.used

    async def _ask(self, message: Callable[[int], Metadata.Request]) -> Metadata.Response:
        request = message(12)
        self.asked.append(request)
        await asyncio.sleep(0)
        return Metadata.Response(
            brokers=[Metadata.Response.MetadataResponseBroker(node_id=1, host="h", port=1)],
            topics=[self._row(row.name or "", request.allow_auto_topic_creation) for row in request.topics or ()],
        )

    def _row(self, name: str, create: bool) -> Any:
        if create:
            self.topics.add(name)
        kind, partition = Metadata.Response.MetadataResponseTopic, Metadata.Response.MetadataResponsePartition
        if name not in self.topics:
            return kind(name=name, error_code=UNKNOWN)
        return kind(name=name, partitions=[partition(partition_index=0, leader_id=1)])

    async def know(self, name: str, *, create: bool = True) -> None:
        await self.keeper.topics([name], self.clock() + PATIENCE_S, create)

    async def round(self) -> set[str]:
        """Refreshes the metadata once. Returns the requested topics."""
        before = len(self.asked)
        self.keeper.refresh()
        assert await self.keeper.next_update(self.clock() + PATIENCE_S)
        return {row.name or "" for request in self.asked[before:] for row in request.topics or ()}


@pytest.mark.parametrize("may_create", [False, True])
def test_only_unused_topics_are_forgotten_after_a_while(may_create: bool) -> None:
    async def work() -> None:
        world = World("t", "u")
        await world.know("t")
        await world.know("u")
        world.used = {"u": may_create}
        assert await world.round() == {"t", "u"}
        forgotten: list[str] = []
        world.keeper.on_forget = forgotten.extend
        world.later = IDLE_S + 1
        assert await world.round() == {"u"}
        assert forgotten == ["t"]
        assert world.keeper.cluster.partitions("t") is None
        await world.know("t")
        assert await world.round() == {"t", "u"}
        await world.keeper.stop()

    asyncio.run(work())


def test_a_new_topic_is_requested_alone_and_the_next_refresh_requests_all() -> None:
    """The defect: a client that sent to its thousandth topic requested all thousand."""

    async def work() -> None:
        world = World("t", "u", "v")
        for name in ("t", "u", "v"):
            await world.know(name, create=name == "u")
        assert [[row.name for row in request.topics or ()] for request in world.asked] == [["t"], ["u"], ["v"]]
        assert await world.round() == {"t", "u", "v"}
        await world.keeper.stop()

    asyncio.run(work())


def test_a_new_topic_does_not_delay_the_next_refresh() -> None:
    async def work() -> None:
        world = World("t", "u")
        await world.know("t")
        due = world.keeper._round_due
        world.later = 1.0
        await world.know("u")
        assert world.keeper._round_due == world.keeper._due == due
        await world.keeper.stop()

    asyncio.run(work())


def test_a_refresh_wanted_for_later_sends_no_request_now() -> None:
    """The defect: a missing topic, noted during a request, caused an empty request at once."""

    async def work() -> None:
        world = World("t")
        waiting = asyncio.create_task(world.know("nope", create=False))
        while len(world.asked) < 10:
            assert await world.keeper.next_update(world.clock() + PATIENCE_S)
        ask = world.keeper._ask

        async def ask_and_wish(message: Callable[[int], Metadata.Request]) -> Metadata.Response:
            world.keeper.refresh("nope")
            return await ask(message)

        world.keeper._ask = ask_and_wish
        await world.know("t")
        assert world.keeper._due == world.keeper._round_due >= world.keeper._wanted["nope"].not_before
        assert all(request.topics for request in world.asked)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await world.keeper.stop()

    asyncio.run(work())


def test_a_call_that_waits_for_a_missing_topic_logs_it_once_after_a_delay(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        world = World()
        waiting = asyncio.create_task(world.know("nope", create=False))
        for world.later in (0.0, FIRST_S, 2 * FIRST_S):
            told = len(caplog.records)
            for _ in range(3):
                assert await world.keeper.next_update(world.clock() + PATIENCE_S)
            if not world.later:
                assert told == len(caplog.records) == 0
        world.topics.add("nope")
        await waiting
        await world.keeper.stop()

    asyncio.run(work())
    [record] = caplog.records
    assert record.getMessage().startswith("still trying: there is no topic 'nope'")
    assert getattr(record, URGENT)


def test_topics_in_use_are_requested_even_if_no_call_waits_for_them() -> None:
    async def work() -> None:
        world = World("t")
        world.used = {"t": False, "gone": False}
        assert await world.round() == {"t", "gone"}
        assert world.topics == {"t"}
        await world.keeper.stop()

    asyncio.run(work())


@pytest.mark.parametrize("is_used", [False, True])
def test_a_deleted_topic_is_created_again_only_if_it_is_in_use(is_used: bool) -> None:
    async def work() -> None:
        world = World()
        await world.know("t")
        world.topics.clear()
        world.used = {"t": True} if is_used else {}
        for _ in range(3):
            await world.round()
        assert world.topics == ({"t"} if is_used else set())
        await world.keeper.stop()

    asyncio.run(work())


def test_other_topics_do_not_wait_for_a_missing_one() -> None:
    """After ten attempts for the missing topic, its next attempt would come a second later."""

    async def work() -> None:
        world = World("t")
        waiting = asyncio.create_task(world.know("nope", create=False))
        while len(world.asked) < 10:
            assert await world.keeper.next_update(world.clock() + PATIENCE_S)
        world.keeper.refresh()
        assert world.keeper._due < world.keeper._wanted["nope"].not_before
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await world.keeper.stop()

    asyncio.run(work())


def test_a_topic_that_never_appears_is_an_error_after_the_timeout() -> None:
    async def work() -> None:
        world = World()
        with pytest.raises(KafkaError, match="there is no topic 'nope'"):
            await world.keeper.topics(["nope"], world.clock() + 0.05, False)
        await world.keeper.stop()

    asyncio.run(work())
