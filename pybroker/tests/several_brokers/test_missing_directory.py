"""A missing disk's log dir does not count as new: a partition with its only replica there stays offline, not empty."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pybroker.cluster.metadata.image import NO_LEADER
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_replication import append, create, follows, has_led, read_all
from pyclient.protocol import errors

TOPICS = ("t", "u", "v", "w")


async def with_logs(cluster: Cluster, dirs: str, *others: int) -> tuple[Broker, list[str]]:
    """Returns a broker, and the topics whose logs are in the second of its dirs."""
    broker = await cluster.start(1, log_dirs=dirs)
    for other in others:
        await cluster.start(other)
    await cluster.until(lambda: len(broker.metadata.image.brokers) == 1 + len(others))
    for name in TOPICS:
        await create(broker, 1, *others, topic=name)
        await cluster.until(lambda name=name: has_led(broker, name))  # type: ignore[misc]
        await append(broker, b"a", topic=name)
    second = [name for name in TOPICS if broker.replicas.find(name, 0).log.log_dir is broker.logs.dirs[1]]
    assert 0 < len(second) < len(TOPICS)
    return broker, second


def unmount(path: Path) -> None:
    path.rename(f"{path}-away")
    path.mkdir()


def mount(path: Path) -> None:
    shutil.rmtree(path)
    Path(f"{path}-away").rename(path)


def is_offline(broker: Broker, topic: str) -> bool:
    with pytest.raises(errors.KafkaStorageError):
        broker.replicas.find(topic, 0)
    return broker.metadata.image.topics[topic].partitions[0].leader == NO_LEADER


@pytest.mark.parametrize("restarts", [1, 2])
def test_partitions_of_a_missing_disk_are_offline_until_it_is_back(tmp_path: Path, restarts: int) -> None:
    disk = tmp_path / "disk-b"
    dirs = f"{tmp_path}/disk-a,{disk}"

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            _, second = await with_logs(cluster, dirs)
            await cluster.stop(1)
            unmount(disk)
            for number in range(restarts):
                broker = await cluster.start(1, log_dirs=dirs)
                for name in second:
                    await cluster.until(lambda name=name: is_offline(broker, name))  # type: ignore[misc]  # noqa: B023
                for name in set(TOPICS) - set(second):
                    assert await append(broker, b"b", topic=name) > 0
                await create(broker, 1, topic=f"new{number}")
                await cluster.until(lambda: has_led(broker, f"new{number}"))  # noqa: B023
                await cluster.stop(1)
            assert not (disk / "meta.properties").exists()
            mount(disk)
            broker = await cluster.start(1, log_dirs=dirs)
            for name in second:
                await cluster.until(lambda name=name: has_led(broker, name))  # type: ignore[misc]
                assert read_all(broker, name) == [b"a"]
                assert await append(broker, b"b", topic=name) == 1

    in_loop(scenario)


def test_a_dir_that_was_taken_out_of_log_dirs_is_missing_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            _, second = await with_logs(cluster, f"{tmp_path}/a,{tmp_path}/b")
            await cluster.stop(1)
            broker = await cluster.start(1, log_dirs=f"{tmp_path}/a")
            for name in second:
                await cluster.until(lambda name=name: is_offline(broker, name))  # type: ignore[misc]

    in_loop(scenario)


def test_an_administrator_gives_a_disk_up(tmp_path: Path) -> None:
    disk = tmp_path / "disk-b"
    dirs = f"{tmp_path}/disk-a,{disk}"

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            broker, second = await with_logs(cluster, dirs)
            lost = broker.logs.dirs[1].directory_id
            await cluster.stop(1)
            unmount(disk)
            for given in ({"log_dirs_given_up": lost}, {}):
                broker = await cluster.start(1, log_dirs=dirs, **given)
                for name in second:
                    await cluster.until(lambda name=name: has_led(broker, name))  # type: ignore[misc]  # noqa: B023
                    assert read_all(broker, name) == []
                assert not broker.logs.offline_dirs
                await cluster.stop(1)

    in_loop(scenario)


def test_a_dir_that_an_administrator_adds_is_used_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await with_logs(cluster, f"{tmp_path}/a,{tmp_path}/b")
            await cluster.stop(1)
            broker = await cluster.start(1, log_dirs=f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c")
            for name in TOPICS:
                await cluster.until(lambda name=name: has_led(broker, name))  # type: ignore[misc]
            await create(broker, 1, topic="new")
            await cluster.until(lambda: has_led(broker, "new"))
            assert broker.replicas.find("new", 0).log.log_dir is broker.logs.dirs[2]

    in_loop(scenario)


def test_a_broker_with_new_disks_fetches_from_other_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, _ = await with_logs(cluster, f"{tmp_path}/a,{tmp_path}/b", 2)
            alone = await cluster.start(3)
            await cluster.until(lambda: 3 in first.metadata.image.brokers)
            await create(first, 3, topic="alone")
            await cluster.until(lambda: has_led(alone, "alone"))
            await append(alone, b"a", topic="alone")
            await cluster.stop(1)
            await cluster.stop(3)
            for name in ("a", "b", "broker-3"):
                shutil.rmtree(tmp_path / name)
            broker = await cluster.start(1, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
            for name in TOPICS:
                await cluster.until(lambda name=name: follows(broker, 2, name))  # type: ignore[misc]
                await cluster.until(lambda name=name: read_all(broker, name) == [b"a"])  # type: ignore[misc]
            alone = await cluster.start(3)
            await cluster.until(lambda: is_offline(alone, "alone"))
            assert not any(name.startswith("alone") for name in os.listdir(alone.logs.dirs[0].path))

    in_loop(scenario)
