"""Nodes that other programs have written into ZooKeeper stop no broker."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pybroker.cluster import namesake
from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import UNREADABLE_DEFAULTS, MetadataImage, ResourceType
from pybroker.cluster.namesake import BrokerIdTaken
from pybroker.cluster.nodes.loading import load_image
from pybroker.cluster.tests.harness import Members, run
from pybroker.store.interface import CoordinationStore
from pyclient.protocol import errors

OLD_BROKER = b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":9092}'
OLD_TOPIC = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'


async def read(members: Members) -> MetadataImage:
    store = await members.server.connect()
    try:
        return await load_image(store, "cluster")
    finally:
        await store.close()


async def by_hand(members: Members, work: Callable[[CoordinationStore], Awaitable[object]]) -> None:
    store = await members.server.connect()
    await work(store)
    await store.close()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/ids/seqid", b""),
        ("/brokers/ids/9", OLD_BROKER),
        ("/brokers/ids/9", b"[]"),
        ("/brokers/topics/x", OLD_TOPIC),
        ("/brokers/topics/x", b"null"),
        ("/admin/delete_topics/x", b""),
        ("/admin/delete_topics/AAAAAAAAAAAAAAAAAAAAAA", b""),
        ("/config/topics/x", b"[]"),
        ("/config/groups/50%", b"{}"),
        ("/pybroker/unfit/x", b""),
        ("/pybroker/journal/x", b""),
    ],
)
def test_malformed_nodes_stop_no_broker_and_no_controller(tmp_path: Path, path: str, data: bytes) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([NewTopic("t", 3, 3)])
        await members.settled()
        await by_hand(members, lambda store: store.create(path, data))
        await members.start(7)
        await members.die((await members.settled()).controller_id)
        image = await members.settled()
        assert (image.controller_epoch, image.topics.keys()) == (2, {"t"})
        await by_hand(members, lambda store: store.delete(path))

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":1}'])
def test_an_unreadable_broker_configuration_deletes_nothing(tmp_path: Path, data: bytes) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        await by_hand(members, lambda store: store.create("/config/brokers/5", data))
        await members.die(1)
        await members.start(2, 5)
        image = await members.settled()
        assert image.resource_configs == {(ResourceType.BROKER, "5"): UNREADABLE_DEFAULTS}
        config = members.alive[5].node._config
        assert (config["log.cleanup.policy"], config["log.retention.ms"]) == ((), -1)
        change = ConfigChange(ResourceType.BROKER, "5", (KeyChange("log.cleaner.threads", 0, "2"),))
        assert await members.controller.node.controller.alter_configs([change]) == [None]

    run(tmp_path / "db", scenario)


def test_an_incomplete_topic_is_unknown_to_new_brokers_and_stays_with_old_ones(tmp_path: Path) -> None:
    """No broker deletes its logs, although a broker that reads the store again no longer finds the topic."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([NewTopic("t", 3, 2), NewTopic("u", 1, 2)])
        topic = (await members.settled()).topics["t"]
        path = znodes.state_path("t", 1)
        state = znodes.encode_state(topic.partitions[1], 1)
        await by_hand(members, lambda store: store.delete(path))
        loaded = await read(members)
        assert (loaded.topics.keys(), loaded.unreadable) == ({"u"}, {"t"})
        for member in members.alive.values():
            membership = member.node._membership
            assert membership is not None
            if not member.is_controller:
                await membership._reload()
            assert member.image.topics.keys() == {"t", "u"}
            assert not any(delta.deleted for delta in member.deltas)
        await by_hand(members, lambda store: store.create(path, state))

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"leader":1}'])
def test_a_topic_with_an_unreadable_state_is_incomplete(tmp_path: Path, data: bytes) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.controller.node.controller.create_topics([NewTopic("t", 2, 1)])
        path = znodes.state_path("t", 1)
        before = znodes.encode_state((await members.settled()).topics["t"].partitions[1], 1)
        await by_hand(members, lambda store: store.set(path, data))
        assert (await read(members)).unreadable == {"t"}
        await members.die(1)
        await by_hand(members, lambda store: store.set(path, before))

    run(tmp_path / "db", scenario)


def test_the_name_of_a_malformed_topic_is_in_use_and_unreadable_configurations_can_be_set(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        await by_hand(members, lambda store: store.create("/brokers/topics/x", OLD_TOPIC))
        await by_hand(members, lambda store: store.create("/config/groups/g", b""))
        for _ in range(2):
            with pytest.raises(errors.UnknownServerError):
                await service.create_topics([NewTopic("x", 1, 1)])
        change = ConfigChange(ResourceType.GROUP, "g", (KeyChange("consumer.session.timeout.ms", 0, "50000"),))
        assert await service.alter_configs([change]) == [None]
        image = await members.settled()
        assert (image.controller_epoch, len(image.topics)) == (1, 0)
        await by_hand(members, lambda store: store.delete("/brokers/topics/x"))

    run(tmp_path / "db", scenario)


def test_a_broker_id_with_an_unreadable_registration_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namesake, "NAMESAKE_S", 0.4)
    monkeypatch.setattr(namesake, "SLACK_S", 0.0)

    async def scenario(members: Members) -> None:
        await members.start(1)
        await by_hand(members, lambda store: store.create("/brokers/ids/9", OLD_BROKER))
        with pytest.raises(BrokerIdTaken, match="broker 9 is already running"):
            await members.start(9)
        await members.alive.pop(9).store.close()

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("path", [znodes.KNOWN, znodes.FEATURE])
def test_the_error_names_an_unreadable_node_without_which_no_broker_starts(tmp_path: Path, path: str) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.settled()
        store = await members.server.connect()
        before = (await store.get(path))[0]
        await store.set(path, json.dumps([1]).encode())
        with pytest.raises(ValueError, match=f"{path} cannot be read"):
            await load_image(store, "cluster")
        await store.set(path, before)
        await store.close()
        await members.die(1)

    run(tmp_path / "db", scenario)
