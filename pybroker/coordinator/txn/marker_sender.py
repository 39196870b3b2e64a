"""Sends the markers of an ended transaction to the leaders of its partitions.

An ending is a task. It lasts until each partition has its marker and the shard has written that the transaction is
complete. If this broker no longer coordinates the partition in that epoch, the task ends, and the new coordinator
starts another. A failed attempt is repeated with the current leader, after a pause that doubles. The task continues
even if a leader knows a newer coordinator or producer epoch: while this broker is the coordinator, no other broker
would finish the ending.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.txn.marker_writer import Outcomes
from pybroker.coordinator.txn.transaction import Ending
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0

logger = logging.getLogger(__name__)


class Writer(Protocol):
    """Writes markers into partitions of one broker."""

    def write(
        self, marker: EndTxnMarker, partitions: Sequence[TopicPartition]
    ) -> Awaitable[Outcomes]: ...


class Host(Protocol):
    """The coordinator's partitions on this broker."""

    def is_hosted(self, partition: int, leader_epoch: int | None = None) -> bool: ...

    def complete(self, partition: int, ending: Ending) -> Awaitable[None]: ...


class MarkerSender:
    """The endings in progress.

    ``writer(broker id)`` returns the writer to a broker, None while there is none. ``image()`` returns the current
    metadata.
    """

    def __init__(
        self,
        host: Host,
        image: Callable[[], MetadataImage],
        writer: Callable[[int], Writer | None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._host = host
        self._image = image
        self._writer = writer
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, partition: int, leader_epoch: int, ending: Ending) -> None:
        """Begins an ending for a shard of that partition in that epoch."""
        task = self._loop.create_task(self._end(partition, leader_epoch, ending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancels all endings."""
        for task in self._tasks:
            task.cancel()

    async def _end(self, partition: int, leader_epoch: int, ending: Ending) -> None:
        marker = EndTxnMarker(
            ending.producer_id,
            ending.producer_epoch,
            leader_epoch,
            ending.committed,
            ending.version,
        )
        left = set(ending.partitions)
        pause_s = FIRST_PAUSE_S
        while self._host.is_hosted(partition, leader_epoch):
            try:
                if left:
                    await self._deliver(marker, left, ending.transactional_id)
                if not left:
                    await self._host.complete(partition, ending)
                    return
            except errors.NotCoordinator:
                return
            except KafkaError as error:
                logger.info("the transaction of %s cannot be completed yet: %s", ending.transactional_id, error)
            except Exception:
                logger.exception("the markers of %s could not be sent", ending.transactional_id)
            await self._sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _deliver(
        self, marker: EndTxnMarker, left: set[TopicPartition], transactional_id: str
    ) -> None:
        """Sends the marker to the leaders of the partitions in ``left``; removes those that need it no longer."""
        sending = []
        for leader, partitions in self._by_leader(left, transactional_id).items():
            writer = self._writer(leader)
            if writer is not None:
                sending.append(writer.write(marker, partitions))
        for outcomes in await _all(sending):
            for each, error in outcomes.items():
                if error is None:
                    left.discard(each)
                else:
                    logger.info("the marker of %s in %s was not written: %s", transactional_id, each, error)

    def _by_leader(
        self, left: set[TopicPartition], transactional_id: str
    ) -> dict[int, list[TopicPartition]]:
        """Returns the partitions by leader; removes those of deleted topics, which need no marker.

        If a partition is missing from the metadata without having been deleted, its marker waits: it may come back with
        the transaction open.
        """
        image = self._image()
        leaders: dict[int, list[TopicPartition]] = {}
        for each in sorted(left):
            found = image.partition(each.topic, each.partition)
            if found is not None:
                leaders.setdefault(found.leader, []).append(each)
            elif image.topic(each.topic) is None and each.topic in image.lost:
                logger.info("%s of %s's transaction is not in the metadata: its marker waits", each, transactional_id)
            else:
                logger.info("%s of %s's transaction has been deleted", each, transactional_id)
                left.discard(each)
        return leaders


async def _all(sending: Sequence[Awaitable[Outcomes]]) -> Sequence[Outcomes]:
    """Returns the outcomes of all brokers. The requests run at the same time."""
    return [await sending[0]] if len(sending) == 1 else await asyncio.gather(*sending)
