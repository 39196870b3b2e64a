"""A topic with an unreadable configuration loses no record until it is readable again, or a policy is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataImage, ResourceType
from pybroker.cluster.nodes.loading import load_image
from pybroker.cluster.tests.harness import Members, run
from pybroker.config import BrokerConfig, stored_topic_config
from pybroker.store.interface import CoordinationStore
from pyclient.protocol import errors

PATH = znodes.config_path(ResourceType.TOPIC, "t")


def setting(key: str, value: str) -> ConfigChange:
    return ConfigChange(ResourceType.TOPIC, "t", (KeyChange(key, 0, value),))


async def damage(store: CoordinationStore, data: bytes | None) -> None:
    await (store.delete(PATH) if data is None else store.set(PATH, data))


async def with_topic(members: Members) -> CoordinationStore:
    await members.start(1, 2)
    topic = NewTopic("t", 1, 2, configs=(("retention.ms", "-1"),))
    await members.controller.node.controller.create_topics([topic])
    await members.settled()
    store: CoordinationStore = await members.server.connect()
    return store


def policies(members: Members) -> set[tuple[frozenset[str], int]]:
    found = (stored_topic_config(BrokerConfig({}), m.image.topics["t"].configs) for m in members.alive.values())
    return {(each.cleanup_policy, each.retention_ms) for each in found}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":1}', None])
def test_a_new_broker_deletes_nothing_without_a_readable_configuration(tmp_path: Path, data: bytes | None) -> None:
    async def scenario(members: Members) -> None:
        store = await with_topic(members)
        await damage(store, data)
        loaded = await load_image(store, "cluster")
        config = stored_topic_config(BrokerConfig({"log.retention.ms": 1}), loaded.topics["t"].configs)
        assert not config.is_deleted_by_retention
        assert not config.is_compacted
        before = znodes.encode_configs({"retention.ms": "-1"})
        await (store.create(PATH, before) if data is None else store.set(PATH, before))
        await store.close()

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("data", [b"", None])
def test_the_last_readable_configuration_stays_and_a_change_overwrites_it(tmp_path: Path, data: bytes | None) -> None:
    async def scenario(members: Members) -> None:
        store = await with_topic(members)
        await damage(store, data)
        service = members.controller.node.controller
        if data is None:
            with pytest.raises(errors.UnknownServerError):
                await service.alter_configs([setting("segment.bytes", "1048576")])
        assert await service.alter_configs([setting("segment.bytes", "1048576")]) == [None]
        assert (await members.settled()).topics["t"].configs == {"retention.ms": "-1", "segment.bytes": "1048576"}
        assert policies(members) == {(frozenset({"delete"}), -1)}
        await store.close()

    run(tmp_path / "db", scenario)


def test_no_record_is_deleted_until_a_readable_cleanup_policy_is_set(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        store = await with_topic(members)
        await damage(store, b"")
        for node_id in (1, 2):
            await members.die(node_id)
        await members.start(1, 2)
        service = members.controller.node.controller
        assert await service.alter_configs([setting("segment.bytes", "1048576")]) == [None]
        await members.settled()
        assert {policy for policy, _ in policies(members)} == {frozenset()}
        assert await service.alter_configs([setting("cleanup.policy", "delete")]) == [None]
        await members.settled()
        assert {policy for policy, _ in policies(members)} == {frozenset({"delete"})}
        await store.close()

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("key", ["cleanup.policy", "retention.ms", "retention.bytes", "min.compaction.lag.ms"])
def test_an_unreadable_retention_setting_deletes_no_record(key: str) -> None:
    config = stored_topic_config(BrokerConfig({"log.cleanup.policy": "compact,delete"}), {key: "forever"})
    assert config.cleanup_policy == frozenset()
    other = stored_topic_config(BrokerConfig({}), {"segment.bytes": "many", "a.key.of.tomorrow": "1"})
    assert other.cleanup_policy == {"delete"}


def test_a_correction_takes_no_replica_and_no_partition_away(tmp_path: Path) -> None:
    """Otherwise a broker would believe that its replica was moved away, and delete the log."""

    async def scenario(members: Members) -> None:
        store = await with_topic(members)
        image: MetadataImage = members.controller.image
        topic = image.topics["t"]
        [partition] = topic.partitions
        changed = topic._replace(partitions=(type(partition)(0, 1, 0, 0, (1,), (1,)),))
        before = (await store.get(znodes.topic_path("t")))[0]
        await store.set(znodes.topic_path("t"), znodes.encode_topic(changed))
        await store.delete(PATH)
        with pytest.raises(errors.UnknownServerError):
            await members.controller.node.controller.alter_configs([setting("segment.bytes", "1048576")])
        assert [p.replicas for p in (await members.settled()).topics["t"].partitions] == [partition.replicas]
        await store.set(znodes.topic_path("t"), before)
        await store.create(PATH, znodes.encode_configs({"retention.ms": "-1"}))
        await store.close()

    run(tmp_path / "db", scenario)
