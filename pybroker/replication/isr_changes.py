"""Brings the leaders' proposals about in-sync replicas to the controller (AlterPartition, KIP-497).

All proposals that have gathered go in one request; one request is under way at a time. The answer
for a partition is one of:

* the new set: the leader goes by it at once, before the metadata comes;
* a refusal that leaves the set as it was (OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA): the
  proposal is given up;
* the leader is not up to date (FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION …): what it lacks is on
  its way as metadata; until that comes the proposal stays pending, since the set may already be the
  proposed one;
* nothing, or another controller: whether the change was made is unknown, so the proposal stays
  pending and is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pybroker.cluster.image import MetadataImage
from pybroker.replication.isr import IsrTracker
from pybroker.replication.partition import Partition
from pyclient.protocol import AlterPartition, errors

Send = Callable[[AlterPartition.Request], Awaitable[AlterPartition.Response]]
Request = AlterPartition.Request

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
REFUSED_PAUSE_S: Final = 0.25
"""So long a refused proposal stays pending, lest the next fetch make it again."""
MAX_PARTITIONS: Final = 2000

_REFUSED = {errors.OperationNotAttempted.code, errors.IneligibleReplica.code}
_OUTDATED = {
    errors.UnknownTopicOrPartition.code,
    errors.UnknownTopicId.code,
    errors.FencedLeaderEpoch.code,
    errors.InvalidUpdateVersion.code,
    errors.InvalidRequest.code,
    errors.NewLeaderElected.code,
}

logger = logging.getLogger(__name__)


class IsrChanges:
    """The proposals under way; ``send`` asks the controller, wherever it is."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], MetadataImage],
        send: Send,
        on_change: Callable[[Partition], object],
        loop: asyncio.AbstractEventLoop,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``on_change(partition)``: those who wait for the partition are to be woken."""
        self._node_id = node_id
        self._image = image
        self._send = send
        self._on_change = on_change
        self._loop = loop
        self._sleep = sleep
        self._proposals: dict[Partition, IsrTracker] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition) -> None:
        """The partition's tracker has a proposal that is pending."""
        assert partition.isr is not None
        self._proposals[partition] = partition.isr
        if self._task is None:
            self._task = self._loop.create_task(self._work())

    def close(self) -> None:
        """Sends nothing any more."""
        self._proposals.clear()
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        pause_s = FIRST_PAUSE_S
        try:
            while self._proposals:
                if await self._ask():
                    pause_s = FIRST_PAUSE_S
                else:
                    await self._sleep(pause_s)
                    pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        finally:
            self._task = None

    async def _ask(self) -> bool:
        """One request; True where something came of it."""
        request, asked = self._request()
        if not asked:
            return True
        try:
            response = await self._send(request)
        except errors.KafkaError as error:
            logger.info("in-sync replicas cannot be changed yet: %s", error)
            return False
        except Exception:
            logger.exception("changing in-sync replicas")
            return False
        if response.error_code:
            logger.info("in-sync replicas cannot be changed yet: %s", errors.by_code(response.error_code))
            return False
        answers = {
            (topic.topic_id, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        heard = [
            self._hear(partition, answers.get((partition.topic_id, partition.topic_partition.partition)))
            for partition in asked
        ]
        return any(heard)

    def _request(self) -> tuple[AlterPartition.Request, list[Partition]]:
        image = self._image()
        own = image.brokers.get(self._node_id)
        request = Request(broker_id=self._node_id, broker_epoch=own.epoch if own is not None else -1)
        asked: list[Partition] = []
        for partition, tracker in tuple(self._proposals.items())[:MAX_PARTITIONS]:
            if partition.isr is not tracker or tracker.pending is None:
                del self._proposals[partition]  # another epoch has begun, or the metadata was quicker
                continue
            asked.append(partition)
            if not request.topics or request.topics[-1].topic_id != partition.topic_id:
                request.topics.append(Request.TopicData(topic_id=partition.topic_id))
            request.topics[-1].partitions.append(self._wanted(partition, tracker, image))
        return request, asked

    def _wanted(
        self, partition: Partition, tracker: IsrTracker, image: MetadataImage
    ) -> AlterPartition.Request.PartitionData:
        assert tracker.pending is not None
        members = []
        for replica in partition.replicas:
            if replica in tracker.pending.members:
                follower = tracker.followers.get(replica)
                broker = image.brokers.get(replica)
                epoch = follower.broker_epoch if follower is not None else -1
                if epoch < 0 and broker is not None:
                    epoch = broker.epoch
                members.append(Request.BrokerState(broker_id=replica, broker_epoch=epoch))
        return Request.PartitionData(
            partition_index=partition.topic_partition.partition,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=partition.partition_epoch,
        )

    def _hear(self, partition: Partition, answer: Any) -> bool:
        """What the controller says of one partition; False where it is to be asked again."""
        tracker = self._proposals.get(partition)
        code = errors.UnknownServerError.code if answer is None else answer.error_code
        name = partition.topic_partition
        if code in _OUTDATED:
            logger.info("%s: the metadata of its leader is old: %s", name, errors.by_code(code))
        elif code in _REFUSED:
            logger.info("%s: refused: %s", name, errors.by_code(code))
            if tracker is not None:
                self._loop.call_later(REFUSED_PAUSE_S, _give_up, tracker, tracker.pending)
        elif code:
            logger.info("%s: not decided yet: %s", name, errors.by_code(code))
            return False
        self._proposals.pop(partition, None)
        if not code and partition.decided(answer.leader_epoch, answer.partition_epoch, answer.isr):
            logger.info("%s: in sync are now %s", name, answer.isr)
            self._on_change(partition)
            self._go_on(partition)
        return True

    def _go_on(self, partition: Partition) -> None:
        """Another follower may have waited for this decision."""
        tracker = partition.isr
        if tracker is not None and tracker.next_expand(partition.high_watermark) is not None:
            self.propose(partition)


def _give_up(tracker: IsrTracker, proposal: object) -> None:
    if tracker.pending is proposal:
        tracker.give_up()
