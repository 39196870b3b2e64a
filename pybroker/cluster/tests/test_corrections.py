"""The store differs from the metadata: the controller notices it when it writes, and all brokers learn of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster.corrections import correction
from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import NO_LEADER, MetadataImage, PartitionImage, ResourceType, TopicImage
from pybroker.cluster.tests.harness import Members, run
from pybroker.store.interface import Create, Delete, Operation
from pyclient.protocol import errors

GROUP = ResourceType.GROUP


def timeout_of(group: str, value: str = "50000") -> ConfigChange:
    return ConfigChange(GROUP, group, (KeyChange("consumer.session.timeout.ms", 0, value),))


async def by_hand(members: Members, *operations: Operation) -> None:
    store = await members.server.connect()
    await store.multi(operations)
    await store.close()


async def touch(members: Members, path: str) -> None:
    """Writes a node's own data into the node, so that its version grows."""
    store = await members.server.connect()
    await store.set(path, (await store.get(path))[0])
    await store.close()


def isr_of(members: Members) -> tuple[int, ...]:
    return members.controller.image.topics["t"].partitions[0].isr


@pytest.mark.parametrize("group", ["my/app", ".", "..", "a//b", "ab/", "<default>", "50%", "a%2Fb", "grün", "a b"])
def test_a_group_of_any_name_has_a_configuration(tmp_path: Path, group: str) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        for value in ("50000", "55000"):
            assert await members.controller.node.controller.alter_configs([timeout_of(group, value)]) == [None]
        image = await members.settled()
        assert image.controller_epoch == 1
        assert image.resource_configs == {(GROUP, group): {"consumer.session.timeout.ms": "55000"}}
        await members.start(3)
        assert (await members.settled()).resource_configs == image.resource_configs

    run(tmp_path / "db", scenario)


def test_groups_of_different_names_have_different_nodes() -> None:
    names = ["", "a", "a/b", "a%2Fb", "<default>", ".", "%2E", "..", "ab/", "ab"]
    paths = [znodes.config_path(GROUP, name) for name in names]
    assert len(set(paths)) == len(names)
    assert all(path.count("/") == 3 and not path.endswith(("/", ".")) for path in paths)
    assert [znodes.config_name(GROUP, path.rpartition("/")[2]) for path in paths] == names


@pytest.mark.parametrize("entity", ["50%", "%2f", "%FF", "a\\b"])
def test_a_node_without_a_group_belongs_to_no_group(entity: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        znodes.config_name(GROUP, entity)


def test_an_unexpected_configuration_node_is_loaded_by_all_brokers_and_ends_no_controllers_term(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        data = znodes.encode_configs({"consumer.session.timeout.ms": "46000"})
        await by_hand(members, Create(znodes.config_path(GROUP, "g"), data))
        with pytest.raises(errors.UnknownServerError):
            await service.alter_configs([timeout_of("g")])
        image = await members.settled()
        assert image.resource_configs[GROUP, "g"] == {"consumer.session.timeout.ms": "46000"}
        assert await service.alter_configs([timeout_of("g")]) == [None]
        assert (await members.settled()).controller_epoch == 1

    run(tmp_path / "db", scenario)


def test_a_configuration_whose_node_was_removed_can_be_set_again(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        assert await service.alter_configs([timeout_of("g")]) == [None]
        await by_hand(members, Delete(znodes.config_path(GROUP, "g")))
        with pytest.raises(errors.UnknownServerError):
            await service.alter_configs([timeout_of("g")])
        assert (await members.settled()).configs(GROUP, "g") == {}
        assert await service.alter_configs([timeout_of("g")]) == [None]
        assert (await members.settled()).controller_epoch == 1

    run(tmp_path / "db", scenario)


def test_topics_whose_nodes_were_removed_stay_and_keep_their_logs(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", 1, 2)])
        await members.settled()
        await by_hand(members, Delete(znodes.state_path("t", 0)), Delete(znodes.config_path(ResourceType.TOPIC, "t")))
        change = ConfigChange(ResourceType.TOPIC, "t", (KeyChange("retention.ms", 0, "5"),))
        with pytest.raises(errors.UnknownServerError):
            await service.alter_configs([change])
        image = await members.settled()
        assert image.topics.keys() == {"t"}
        assert image.controller_epoch == 1
        assert not any(delta.deleted for member in members.alive.values() for delta in member.deltas)
        state = znodes.encode_state(image.topics["t"].partitions[0], 1)
        data = znodes.encode_configs({})
        await by_hand(
            members,
            Create(znodes.state_path("t", 0), state),
            Create(znodes.config_path(ResourceType.TOPIC, "t"), data),
        )

    run(tmp_path / "db", scenario)


def test_a_controller_that_dies_is_replaced_though_a_node_is_of_another_version(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([NewTopic("t", assignments=((0, (1, 2)),))])
        await members.settled()
        await touch(members, znodes.state_path("t", 0))
        await members.die(1)
        image = await members.settled()
        assert image.controller_epoch == 2
        [partition] = image.topics["t"].partitions
        assert (partition.leader, partition.isr) == (2, (2,))

    run(tmp_path / "db", scenario)


def test_a_partition_with_another_version_in_the_store_is_corrected_on_every_broker(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", assignments=((0, (2, 3)),))])
        await members.settled()
        await touch(members, znodes.state_path("t", 0))
        await members.die(3)
        await members.until(lambda: members.has_settled and isr_of(members) == (2,))
        assert members.controller.image.controller_epoch == 1
        await service.create_partitions([NewPartitions("t", 2)])

    run(tmp_path / "db", scenario)


def test_a_correction_replaces_the_partition_at_every_replica() -> None:
    """Otherwise replicas would ignore it: they accept no image with an older epoch than they know."""
    known = PartitionImage(0, 1, leader_epoch=4, partition_epoch=9, replicas=(1, 2), isr=(1, 2))
    stored = PartitionImage(0, 1, leader_epoch=4, partition_epoch=8, replicas=(1, 2), isr=(1,))
    other = PartitionImage(1, 2, leader_epoch=0, partition_epoch=0, replicas=(1, 2), isr=(1, 2))
    image, found = (
        MetadataImage(topics={"t": TopicImage("t", bytes(16), (each, other))}) for each in (known, stored)
    )
    step = correction(image, found)
    corrected, same = step.delta.changed["t"].partitions
    assert (corrected.leader_epoch, corrected.partition_epoch, corrected.isr) == (5, 9, (1,))
    assert same is other
    assert [(op.path, op.version) for op in step.operations] == [(znodes.state_path("t", 0), 8)]  # type: ignore[union-attr]
    assert not correction(image, image).delta


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [
        ({"leader": 2}, (5, 11)),
        ({"leader": NO_LEADER}, (5, 11)),
        ({"replicas": (1, 2, 3)}, (5, 11)),
        ({"leader": 2, "leader_epoch": 3}, (5, 11)),
        ({"leader": 2, "leader_epoch": 5}, (5, 10)),
        ({"isr": (1,)}, (4, 10)),
    ],
)
def test_a_correction_never_gives_two_leaders_the_same_leader_epoch(changes: Any, epochs: tuple[int, int]) -> None:
    """A larger partition epoch alone does not tell which broker leads."""
    known = PartitionImage(0, 1, leader_epoch=4, partition_epoch=9, replicas=(1, 2), isr=(1, 2))
    stored = replace(known, partition_epoch=10, **changes)
    image, found = (MetadataImage(topics={"t": TopicImage("t", bytes(16), (each,))}) for each in (known, stored))
    [corrected] = correction(image, found).delta.changed["t"].partitions
    assert corrected == replace(stored, leader_epoch=epochs[0], partition_epoch=epochs[1])
