"""The controller is killed at every call that it makes to the store, before and after the call is performed.

Its change is then either done or not done, and all agree on that: brokers that follow, the next controller,
and a broker that loads the store afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster.controller import ControllerService
from pybroker.cluster.decisions import plan, topic_steps
from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.metadata.image import NO_LEADER
from pybroker.cluster.tests.harness import Members, check_agreement
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import ConnectionLoss, CoordinationError
from pyclient.protocol.errors import KafkaError

CALLS = frozenset({"multi", "create", "set", "delete", "get", "get_many", "children", "exists"})
PARTS = 4
"""How many tests the calls are divided among."""


class Doomed:
    """A store whose session ends at the ``last``-th call, before or after the call is performed."""

    def __init__(self, store: EmbeddedStore, last: int, *, is_done: bool) -> None:
        self._store = store
        self._left = last
        self._is_done = is_done
        self.has_died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(found) if name in CALLS else found

    def _counted(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left > 0 or self.has_died.is_set():
                return await call(*args, **options)
            if self._is_done:
                await call(*args, **options)
            self.has_died.set()
            await self._store.close()
            raise ConnectionLoss("killed")

        return counted


async def work(service: ControllerService) -> None:
    """Sends the requests during which the controller dies."""
    await service.create_topics([NewTopic("a", 3, 2), NewTopic("b", 9, 3)])
    await service.create_partitions([NewPartitions("a", 7)])
    change = ConfigChange(2, "a", (KeyChange("retention.ms", 0, "5"),))
    await service.alter_configs([change])
    await service.delete_topics([TopicName("b")])
    await service.create_topics([NewTopic("b", 1, 2)])
    await service.delete_topics([TopicName("a"), TopicName("b")])
    await service.create_topics([NewTopic("a", 2, 3)])


async def run_once(file: Path, last: int, *, is_done: bool) -> bool:
    """Returns False if the controller has survived its work."""
    async with asyncio.timeout(60), Members(file) as members:
        doomed: list[Doomed] = []

        def wrap(store: EmbeddedStore) -> Doomed:
            doomed.append(Doomed(store, last, is_done=is_done))
            return doomed[0]

        try:
            first = await members.start(1, wrap=wrap)
            await members.start(2, 3)
            await members.until(lambda: members.has_settled or doomed[0].has_died.is_set())
            await work(first.node.controller)
        except (CoordinationError, KafkaError):
            assert doomed[0].has_died.is_set()
        if 1 in members.alive:
            await members.die(1)
        for node_id in {2, 3} - members.alive.keys():
            await members.start(node_id)
        image = await members.settled()
        check_agreement(members)
        await members.check_store()
        for topic in image.topics.values():
            for partition in topic.partitions:
                assert partition.leader in {2, 3, NO_LEADER}
        await members.controller.node.controller.create_topics([NewTopic("after", 2, 2)])
        assert "after" in (await members.settled()).topics
        await members.check_store()
        return doomed[0].has_died.is_set()


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_s95_a_change_is_complete_or_absent_wherever_its_controller_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, is_done: bool
) -> None:
    monkeypatch.setattr(plan, "PARTITIONS_PER_STEP", 4)
    monkeypatch.setattr(topic_steps, "PARTITIONS_PER_STEP", 4)
    monkeypatch.setattr(topic_steps, "REMOVED_AT_ONCE", 1)

    async def main() -> int:
        last = 1 + part
        while await run_once(tmp_path / f"db{last}", last, is_done=is_done):
            last += PARTS
        return last

    assert asyncio.run(main()) > 40
