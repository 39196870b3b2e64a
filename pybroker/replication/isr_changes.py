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
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pybroker.cluster.image import MetadataImage
from pybroker.cluster.isr_changes import ANY_EPOCH, InSync, IsrChange, IsrOutcome
from pybroker.replication.isr import IsrTracker
from pybroker.replication.partition import Partition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Send = Callable[[int, Sequence[IsrChange]], Awaitable[Sequence[IsrOutcome]]]
"""Asks the controller, in this broker's epoch."""

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
REFUSED_PAUSE_S: Final = 0.25
"""So long a refused proposal stays pending, lest the next fetch make it again."""
MAX_PARTITIONS: Final = 2000

_REFUSED = (errors.OperationNotAttempted, errors.IneligibleReplica)
_OUTDATED = (
    errors.UnknownTopicOrPartition,
    errors.UnknownTopicId,
    errors.FencedLeaderEpoch,
    errors.InvalidUpdateVersion,
    errors.InvalidRequest,
    errors.NewLeaderElected,
)

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
        asked = self._asked()
        if not asked:
            return True
        image = self._image()
        own = image.brokers.get(self._node_id)
        changes = [_change(partition, image) for partition in asked]
        try:
            outcomes = await self._send(own.epoch if own is not None else ANY_EPOCH, changes)
        except errors.KafkaError as error:
            logger.info("in-sync replicas cannot be changed yet: %s", error)
            return False
        except Exception:
            logger.exception("changing in-sync replicas")
            return False
        heard = [self._hear(each, outcome) for each, outcome in zip(asked, outcomes, strict=True)]
        _log(outcomes)
        return any(heard)

    def _asked(self) -> list[Partition]:
        """Partitions whose proposals still stand."""
        asked: list[Partition] = []
        for partition, tracker in tuple(self._proposals.items())[:MAX_PARTITIONS]:
            if partition.isr is tracker and tracker.pending is not None:
                asked.append(partition)
            else:
                del self._proposals[partition]  # another epoch has begun, or the metadata was quicker
        return asked

    def _hear(self, partition: Partition, outcome: IsrOutcome) -> bool:
        """What the controller says of one partition; False where it is to be asked again."""
        tracker, name = self._proposals.get(partition), partition.topic_partition
        if isinstance(outcome, KafkaError):
            logger.debug("%s: the ISR stays: %s", name, outcome)
            if not isinstance(outcome, (*_REFUSED, *_OUTDATED)):
                return False
            if isinstance(outcome, _REFUSED) and tracker is not None:
                self._loop.call_later(REFUSED_PAUSE_S, _give_up, tracker, tracker.pending)
            self._proposals.pop(partition, None)
            return True
        self._proposals.pop(partition, None)
        if partition.decided(outcome.leader_epoch, outcome.partition_epoch, outcome.isr):
            logger.debug("%s: in sync are now %s", name, outcome.isr)
            self._on_change(partition)
            self._go_on(partition)
        return True

    def _go_on(self, partition: Partition) -> None:
        """Another follower may have waited for this decision."""
        tracker = partition.isr
        if tracker is not None and tracker.next_expand(partition.high_watermark) is not None:
            self.propose(partition)


def _change(partition: Partition, image: MetadataImage) -> IsrChange:
    """What the partition's leader proposes, with the epochs that it knows."""
    tracker = partition.isr
    assert tracker is not None
    assert tracker.pending is not None
    members = []
    for replica in partition.replicas:
        if replica in tracker.pending.members:
            follower, broker = tracker.followers.get(replica), image.brokers.get(replica)
            epoch = follower.broker_epoch if follower is not None else ANY_EPOCH
            if epoch == ANY_EPOCH and broker is not None:
                epoch = broker.epoch
            members.append(InSync(replica, epoch))
    return IsrChange(
        partition.topic_id,
        partition.topic_partition.partition,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(members),
    )


def _log(outcomes: Sequence[IsrOutcome]) -> None:
    """One line for a request, however many partitions it was for."""
    counts = Counter(each.name if isinstance(each, KafkaError) else "changed" for each in outcomes)
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    logger.info("in-sync replicas of %d partitions: %s", len(outcomes), told)


def _give_up(tracker: IsrTracker, proposal: object) -> None:
    if tracker.pending is proposal:
        tracker.give_up()
