"""A client that asks for a partition of a dead leader gets the next leader, as long as that takes only a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.cluster import suspects
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataDelta, MetadataImage, PartitionImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.suspects import GRACE_MS, Suspects
from pybroker.handlers import metadata
from pybroker.handlers.common.call import Call
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.waiting import PATIENCE_S
from pyclient.protocol import Metadata

LONG_MS = 3_600_000
"""The patience in these tests: so long that only the metadata or the test's clock can end a wait."""
LED_BY_2 = [PartitionImage(0, 2, 0, 0, (2, 1), (2, 1))]
LED_BY_1 = [PartitionImage(0, 1, 0, 0, (2, 1), (2, 1))]


class World:
    """Brokers 1 and 2, and broker 1's view of broker 2."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metadata = MetadataCache(MetadataImage())
        self.suspects = Suspects(self.metadata, self.clock)

    async def register(self, epoch: int | None) -> None:
        """Registers broker 2, or unregisters it (None)."""
        broker = None if epoch is None else BrokerRegistration(2, epoch, ())
        await self.metadata.publish(MetadataDelta(brokers={1: BrokerRegistration(1, 1, ()), 2: broker}))


def scenario(play: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        world = World()
        await world.register(7)
        async with asyncio.timeout(PATIENCE_S):
            await play(world)

    def test(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(suspects, "PATIENCE_MS", LONG_MS)
        asyncio.run(run())

    return test


@scenario
async def test_only_partitions_led_by_a_suspect_broker_have_to_wait(world: World) -> None:
    assert not world.suspects.lead(LED_BY_2)
    world.suspects.accuse(2)
    assert world.suspects.lead(LED_BY_2)
    assert not world.suspects.lead(LED_BY_1)


@scenario
async def test_a_wait_for_a_suspect_ends_when_the_metadata_remove_the_broker(world: World) -> None:
    world.suspects.accuse(2)
    settled = world.suspects.settled()
    await asyncio.sleep(0)
    assert not settled.done()
    await world.register(None)
    await settled
    assert not world.suspects.lead(LED_BY_2)


@scenario
async def test_a_broker_that_has_registered_again_is_no_suspect(world: World) -> None:
    world.suspects.accuse(2)
    settled = world.suspects.settled()
    await world.register(8)
    await settled
    assert not world.suspects.lead(LED_BY_2)


@scenario
async def test_a_broker_is_a_suspect_only_briefly(world: World) -> None:
    world.suspects.accuse(2)
    world.clock.advance(LONG_MS)
    await world.suspects.settled()
    assert not world.suspects.lead(LED_BY_2)


@scenario
async def test_a_dead_broker_is_listed_for_a_while(world: World) -> None:
    world.suspects.accuse(2)
    assert world.suspects.departed() == []
    await world.register(None)
    assert [broker.id for broker in world.suspects.departed()] == [2]
    assert not world.suspects.lead(LED_BY_2)
    world.clock.advance(GRACE_MS)
    assert world.suspects.departed() == []


@scenario
async def test_a_broker_that_has_returned_is_listed_once(world: World) -> None:
    world.suspects.accuse(2)
    await world.register(None)
    await world.register(8)
    assert world.suspects.departed() == []


@scenario
async def test_a_broker_that_is_not_registered_is_no_suspect(world: World) -> None:
    world.suspects.accuse(3)
    await world.suspects.settled()


def test_a_metadata_request_waits_for_the_next_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.cluster.suspects.PATIENCE_MS", 60_000)

    async def play() -> None:
        async with Cluster(tmp_path) as cluster:
            first = await cluster.start(1)
            await cluster.start(2)
            await first.controller.create_topics([NewTopic("t", assignments=((0, (2, 1)),))])
            first.suspects.accuse(2)
            listener = {"listener_name": "PLAINTEXT", "local_address": ("127.0.0.1", 1)}
            connection: Any = SimpleNamespace(**listener, hold=lambda: None, release=lambda: None)
            request = Metadata.Request(topics=[Metadata.Request.MetadataRequestTopic(name="t")])
            answer = asyncio.ensure_future(metadata.handle(request, Call(first, 12, "c", connection)))  # type: ignore
            await cluster.kill(2)
            message = Metadata.response_codec.encode(12, await answer)
            response = Metadata.decode_response(12, message, 0, len(message))
            assert response.topics[0].partitions[0].leader_id == 1

    in_loop(play)
