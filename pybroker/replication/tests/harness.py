"""A broker without sockets: with real logs, a clock that stands still, and metadata from the test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from cy.batch import Builder, iterate
from pybroker.clock import ManualClock
from pybroker.cluster.metadata.image import NOT_READ, MetadataDelta, MetadataImage, PartitionImage, Reading, TopicImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.config import BrokerConfig, topic_config
from pybroker.log.files.storage import Storage
from pybroker.log.manager import LogManager
from pybroker.pools import Pools
from pybroker.replication.partition import Partition
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.tests.waiting import until_async
from pybroker.topic_partition import TopicPartition
from pyclient.keywords import with_dots

NODE = 1
NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


def topic_id(name: str, generation: int = 0) -> bytes:
    """Returns the id of a topic in these tests."""
    return (name.encode() + bytes(15))[:15] + bytes([generation])


def batch(*values: bytes, timestamp: int = NOW, key: bytes | None = b"k", **options: Any) -> bytes:
    """Returns a batch of records with these values; ``options`` are those of ``Builder``."""
    builder = Builder(**options)
    for number, value in enumerate(values or (b"v",)):
        builder.append(timestamp + number, key, value)
    return builder.build()


def idempotent(sequence: int, *values: bytes, epoch: int = 0, producer: int = 7) -> bytes:
    """Returns a batch of an idempotent producer."""
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def values(records: Any) -> list[bytes | None]:
    """Returns the values of the records that a fetch returned."""
    data = records if isinstance(records, bytes) else records.read()
    return [record.value for record in iterate(data)]


def until(loop: asyncio.AbstractEventLoop, holds: Callable[[], object]) -> None:
    """Lets the loop run until something holds."""
    loop.run_until_complete(until_async(holds))


class Node:
    """One broker, by default broker 1."""

    def __init__(
        self,
        root: Path,
        *,
        dirs: int = 1,
        storage: Storage | None = None,
        settings: Mapping[str, Any] | None = None,
        node_id: int = NODE,
    ) -> None:
        self.paths = [str(root / f"dir{number}") for number in range(dirs)]
        self.node_id = node_id
        self.storage = storage or Storage()
        self.config = BrokerConfig(settings or {})
        self.clock = ManualClock(NOW)
        self.loop = asyncio.new_event_loop()
        self.metadata = MetadataCache(MetadataImage())
        self.quotas: Any = None
        self.start()

    def start(self, deleted: Mapping[str, TopicImage] | None = None, reading: Reading = NOT_READ) -> None:
        """Opens the logs and applies the metadata, as at the start of a broker.

        ``deleted``: topics whose deletion was interrupted.
        """
        self.pools = Pools.threads(copies=1)
        self.logs = LogManager(
            self.paths,
            self.storage,
            topic_config(self.config, {}),
            self.clock,
            cluster_id="cluster",
            node_id=self.node_id,
            pools=self.pools,
        )
        self.logs.load()
        self.replicas = ReplicaManager(self.node_id, self.logs, self.config, self.clock, self.loop, self.pools)
        self.led: list[tuple[TopicPartition, int | None]] = []
        self.replicas.on_leadership(lambda tp, epoch: self.led.append((tp, epoch)))
        image = self.metadata.image
        self.metadata = MetadataCache(MetadataImage(features=image.features))
        self.metadata.add_listener(self.replicas.apply)
        self.metadata.add_follower(self.replicas.announce)
        self.publish(MetadataDelta(changed=image.topics, deleted=deleted or {}, reading=reading))

    def stop(self) -> None:
        """Stops the broker cleanly."""
        self.replicas.close()
        for pool in self.pools:
            pool.shutdown()
        self.logs.close()

    def close(self) -> None:
        """Ends the test. Cancelled tasks get a turn, as in a broker; otherwise nobody would have awaited them."""
        self.stop()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left))
        self.loop.close()

    # Metadata

    def publish(self, delta: MetadataDelta, *, makes_logs: bool = True) -> None:
        """Changes the metadata. By default, new logs exist when this returns."""
        self.run(self.metadata.publish(delta))
        while makes_logs and self.replicas.partitions.new:
            self.turn()

    def create(
        self,
        name: str = "t",
        partitions: int = 1,
        *,
        replicas: tuple[int, ...] = (NODE,),
        isr: tuple[int, ...] | None = None,
        leader: int = NODE,
        epoch: int = 0,
        partition_epoch: int = 0,
        generation: int = 0,
        makes_logs: bool = True,
        **configs: str,
    ) -> Partition:
        """Makes or changes a topic; returns its first partition."""
        images = tuple(
            PartitionImage(n, leader, epoch, partition_epoch, replicas, isr or replicas) for n in range(partitions)
        )
        overrides = with_dots(configs)
        topic = TopicImage(name, topic_id(name, generation), images, overrides)
        self.publish(MetadataDelta(changed={name: topic}), makes_logs=makes_logs)
        return self.replicas.partitions.topics.get(name, {}).get(0)  # type: ignore[return-value]

    def delete(self, name: str = "t") -> None:
        """Deletes a topic; when this returns, its logs are gone."""
        self.publish(MetadataDelta(deleted={name: self.metadata.image.topics[name]}))
        self.run(self.replicas.delete_leaving())

    # Work

    def run(self, work: Any) -> Any:
        """Lets the loop run until ``work`` is done."""
        return self.loop.run_until_complete(asyncio.wait_for(work, 60))

    def turn(self) -> None:
        """Lets the loop run what is ready."""
        self.loop.run_until_complete(asyncio.sleep(0))

    def until(self, holds: Callable[[], object]) -> None:
        """Lets the loop run until something holds."""
        until(self.loop, holds)

    def append(self, *values: bytes, topic: str = "t", index: int = 0, acks: int = 1) -> int:
        """Appends a batch; returns the offset of its first record."""
        tp = TopicPartition(topic, index)
        return self.replicas.append(tp, batch(*values), acks, NOW).info.first_offset


MakeNode = Callable[..., Node]


Made = TypeVar("Made", bound=Node)


@contextmanager
def nodes(kind: Callable[..., Made], folder: Path) -> Iterator[Callable[..., Made]]:
    """Yields a function that makes brokers, by default with log dirs in one folder; closes the brokers at the end."""
    made: list[Made] = []

    def make(root: Path = folder, **options: Any) -> Made:
        made.append(kind(root, **options))
        return made[-1]

    yield make
    for node in made:
        node.close()


@contextmanager
def at_each_turn(loop: asyncio.AbstractEventLoop, look: Callable[[], object]) -> Iterator[None]:
    """Calls ``look`` in each turn of the loop, until the end."""

    def turn() -> None:
        nonlocal following
        look()
        following = loop.call_soon(turn)

    following = loop.call_soon(turn)
    try:
        yield
    finally:
        following.cancel()


def most_logs_at_once(node: Node, serve: Callable[[], object]) -> int:
    """Returns how many logs are made in one turn of the loop at most."""
    counts: list[int] = []
    with at_each_turn(node.loop, lambda: counts.append(len(node.logs))):
        serve()
    counts.append(len(node.logs))
    return max(after - before for before, after in pairwise(counts))


def folders(node: Node) -> list[str]:
    """Returns the folders of logs, except those that are being removed, which have lost their names."""
    names = sorted(name for path in node.paths for name in os.listdir(path) if os.path.isdir(f"{path}/{name}"))
    return [name for name in names if not name.endswith("-delete")]


async def in_time(work: Any) -> None:
    """Awaits ``work``, with a limit that ends long before a blocked call would resume."""
    await asyncio.wait_for(work, 40)
