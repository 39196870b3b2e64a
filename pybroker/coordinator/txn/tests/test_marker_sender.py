"""How markers reach the leaders of an ended transaction's partitions (faults 33 and 36)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage, Reading, TopicImage
from pybroker.coordinator.txn.marker_sender import LONGEST_PAUSE_S, MarkerSender
from pybroker.coordinator.txn.marker_writer import Outcomes
from pybroker.coordinator.txn.transaction import Ending
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

HERE, THERE = 1, 2
EPOCH = 5
A, B, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)

GONE_TOPIC = TopicImage("gone", b"g" * 16, (PartitionImage(0, HERE, 0, 0, (HERE,), (HERE,)),))


class World:
    """A coordinator with partition 0 of t, led here, and partition 1, led elsewhere. A sleep is a turn of the loop."""

    def __init__(self) -> None:
        self.hosted = True
        self.written: list[tuple[int, TopicPartition]] = []
        self.markers: list[EndTxnMarker] = []
        self.failures: dict[TopicPartition, list[KafkaError]] = {}
        self.refusals: list[KafkaError] = []
        self.completed: list[Ending] = []
        self.pauses: list[float] = []
        self.unreachable: set[int] = set()
        self.leaders = (HERE, THERE)
        self.events: list[MetadataDelta] = []
        """The changes of the metadata before t appeared."""

    def image(self) -> MetadataImage:
        partitions = tuple(
            PartitionImage(n, leader, 0, 0, (HERE, THERE), (HERE, THERE)) for n, leader in enumerate(self.leaders)
        )
        topic = TopicImage("t", bytes(16), partitions)
        image = MetadataImage()
        for event in self.events:
            image = image.apply(event)
        return image.apply(MetadataDelta(changed={"t": topic}))

    # Interfaces that the sender uses

    def is_hosted(self, partition: int, leader_epoch: int | None = None) -> bool:
        assert (partition, leader_epoch) == (3, EPOCH)
        return self.hosted

    async def complete(self, partition: int, ending: Ending) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.completed.append(ending)

    def writer(self, broker: int) -> Any:
        return None if broker in self.unreachable else Writer(self, broker)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        if len(self.pauses) > 50:
            self.hosted = False


class Writer:
    """Writes markers into the world's list."""

    def __init__(self, world: World, broker: int) -> None:
        self.world, self.broker = world, broker

    async def write(self, marker: EndTxnMarker, partitions: Sequence[TopicPartition]) -> Outcomes:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        self.world.markers.append(marker)
        for each in partitions:
            failures = self.world.failures.get(each)
            outcomes[each] = failures.pop(0) if failures else None
            if outcomes[each] is None:
                self.world.written.append((self.broker, each))
        return outcomes


def ending(*partitions: TopicPartition) -> Ending:
    return Ending("x", 1000, 4, True, 2, frozenset(partitions))


def send(world: World, *partitions: TopicPartition) -> Ending:
    """Sends the markers, and lets the loop run until the ending is over."""

    async def run() -> None:
        sender = MarkerSender(world, world.image, world.writer, world.sleep)
        sender.send(3, EPOCH, wanted)
        await asyncio.wait_for(asyncio.gather(*sender._tasks), 60)

    wanted = ending(*partitions)
    asyncio.run(run())
    return wanted


def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    world = World()
    wanted = send(world, A, B)
    assert world.written == [(HERE, A), (THERE, B)]
    assert set(world.markers) == {EndTxnMarker(1000, 4, EPOCH, True, 2)}
    assert world.completed == [wanted]
    assert world.pauses == []


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    world = World()
    assert send(world) in world.completed


def test_partitions_of_deleted_topics_need_no_marker() -> None:
    world = World()
    wanted = send(world, A, GONE)
    assert world.written == [(HERE, A)]
    assert world.completed == [wanted]


@pytest.mark.parametrize(
    "lost", [MetadataDelta(reading=Reading(frozenset(("gone",)))), MetadataDelta(missing={"gone": GONE_TOPIC})]
)
def test_a_topic_that_the_metadata_have_lost_gets_its_marker_when_it_comes_back(lost: MetadataDelta) -> None:
    world = World()
    world.events = [MetadataDelta(changed={"gone": GONE_TOPIC})] if lost.missing else []
    world.events.append(lost)
    pause = world.sleep

    async def comes_back(seconds: float) -> None:
        await pause(seconds)
        assert world.completed == []
        if len(world.pauses) == 3:
            world.events.append(MetadataDelta(changed={"gone": GONE_TOPIC}))

    world.sleep = comes_back  # type: ignore[method-assign]
    wanted = send(world, A, GONE)
    assert world.written == [(HERE, A), (HERE, GONE)]
    assert world.completed == [wanted]


def test_a_lost_topic_that_is_deleted_needs_no_marker() -> None:
    world = World()
    world.events = [MetadataDelta(reading=Reading(frozenset(("gone",))))]
    pause = world.sleep

    async def deletes(seconds: float) -> None:
        await pause(seconds)
        world.events.append(MetadataDelta(deleted={"an id": GONE_TOPIC._replace(partitions=())}))

    world.sleep = deletes  # type: ignore[method-assign]
    wanted = send(world, GONE)
    assert (world.completed, len(world.pauses)) == ([wanted], 1)


def test_only_what_failed_is_written_again() -> None:
    world = World()
    world.failures[B] = [errors.NotLeaderOrFollower(), errors.NotEnoughReplicas()]
    wanted = send(world, A, B)
    assert world.written == [(HERE, A), (THERE, B)]
    assert world.completed == [wanted]
    assert len(world.pauses) == 2


def test_the_current_leader_gets_the_markers() -> None:
    world = World()
    world.unreachable = {THERE}
    pause = world.sleep

    async def move(seconds: float) -> None:
        await pause(seconds)
        world.leaders = (HERE, HERE)

    world.sleep = move  # type: ignore[method-assign]
    send(world, A, B)
    assert world.written == [(HERE, A), (HERE, B)]


def test_a_fenced_delivery_is_not_given_up_while_the_shard_is_here() -> None:
    world = World()
    world.failures[A] = [errors.TransactionCoordinatorFenced() for _ in range(5)]
    world.failures[B] = [errors.InvalidProducerEpoch() for _ in range(9)]
    wanted = send(world, A, B)
    assert world.completed == [wanted]
    assert world.pauses == sorted(world.pauses)
    assert world.pauses[-1] == LONGEST_PAUSE_S


def test_the_completion_is_written_again_when_it_was_refused() -> None:
    world = World()
    world.refusals = [errors.CoordinatorNotAvailable(), errors.CoordinatorLoadInProgress()]
    wanted = send(world, A)
    assert world.written == [(HERE, A)]
    assert world.completed == [wanted]


def test_the_end_of_a_transaction_stops_when_the_shard_is_unloaded() -> None:
    world = World()
    world.unreachable = {HERE}
    send(world, A)
    assert world.completed == []
    world = World()
    world.refusals = [errors.NotCoordinator()]
    send(world, A)
    assert world.completed == []


def test_an_unexpected_failure_is_tried_again() -> None:
    world = World()
    world.failures[A] = [errors.UnknownServerError()]
    writer = world.writer
    broken = [True]

    def breaks(broker: int) -> Any:
        if broken.pop() if broken else False:
            raise OSError("no way")
        return writer(broker)

    world.writer = breaks  # type: ignore[method-assign]
    assert send(world, A) in world.completed


def test_closing_cancels_running_ends_of_transactions() -> None:
    world = World()
    world.unreachable = {HERE}

    async def run() -> None:
        sender = MarkerSender(world, world.image, world.writer)
        sender.send(3, EPOCH, ending(A))
        await asyncio.sleep(0)
        [task] = sender._tasks
        sender.close()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(run())
    assert world.completed == []
