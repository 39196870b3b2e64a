"""Sends the leaders' proposals about in-sync replicas to the controller (AlterPartition, KIP-497).

One request at a time is in flight; it has all proposals that have been made since the last one. The controller's answer
for a partition is one of:

* the new set: the leader applies a larger set at once, a smaller one when its metadata arrives;
* a refusal that leaves the set as it was (OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA): the proposal is dropped;
* an error that shows that the leader's metadata is out of date (FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION …). The
  proposal stays pending until newer metadata arrives, since the set may already be the proposed one;
* no answer, or NOT_CONTROLLER: the change may have been made or not, so the proposal stays pending and is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from pybroker.cluster.decisions.isr_changes import ANY_EPOCH, InSync, IsrChange, IsrOutcome
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.replication.isr import Expand, IsrTracker, Shrink
from pybroker.replication.partition import Partition
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Send = Callable[[int, Sequence[IsrChange]], Awaitable[Sequence[IsrOutcome]]]
"""Sends proposals to the controller, with this broker's epoch, and returns one outcome for each."""

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
REFUSED_PAUSE_S: Final = 0.5
"""How long to wait before a refused follower is proposed again."""
MAX_PARTITIONS: Final = 2000

SHOWN: Final = 5
"""How many partitions a log line names."""
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


class Asked(NamedTuple):
    """A proposal in the current request."""

    partition: Partition
    tracker: IsrTracker
    proposal: Expand | Shrink


class IsrChanges:
    """Sends pending proposals to the controller, on whichever broker it is."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        send: Send,
        on_change: Callable[[Partition], object],
        loop: asyncio.AbstractEventLoop,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``broker_epoch()`` returns that of this broker's registration.

        ``on_change(partition)`` wakes the requests that wait for the partition.
        """
        self._image = image
        self._broker_epoch = broker_epoch
        self._send = send
        self._on_change = on_change
        self._loop = loop
        self._sleep = sleep
        self._proposals: dict[Partition, IsrTracker] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition) -> None:
        """Sends the pending proposal of the partition's tracker."""
        assert partition.isr is not None
        self._proposals[partition] = partition.isr
        if self._task is None:
            self._task = self._loop.create_task(self._work())

    def close(self) -> None:
        """Sends no further proposals."""
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
        """Sends one request. Returns False if it has to be repeated after a pause."""
        asked = self._take()
        if not asked:
            return True
        image = self._image()
        try:
            changes = [_change(partition, image) for partition, _, _ in asked]
            outcomes = await self._send(self._broker_epoch(), changes)
            _log([partition.topic_partition for partition, _, _ in asked], outcomes)
            return any([self._hear(each, outcome) for each, outcome in zip(asked, outcomes, strict=True)])
        except Exception as error:
            level = logging.INFO if isinstance(error, KafkaError) else logging.ERROR
            logger.log(level, "in-sync replicas cannot be changed yet; the controller is asked again: %r", error)
            for each in asked:
                self._put_back(*each)
            return False

    def _take(self) -> list[Asked]:
        """Removes and returns the next proposals, without those that a new leader epoch or newer metadata has ended."""
        asked: list[Asked] = []
        for partition, tracker in tuple(self._proposals.items())[:MAX_PARTITIONS]:
            del self._proposals[partition]
            if partition.isr is tracker and tracker.pending is not None:
                asked.append(Asked(partition, tracker, tracker.pending))
        return asked

    def _put_back(self, partition: Partition, tracker: IsrTracker, proposal: Expand | Shrink) -> None:
        """Queues a proposal again whose outcome is unknown."""
        if partition.isr is tracker and tracker.pending is proposal:
            self._proposals.setdefault(partition, tracker)

    def _hear(self, asked: Asked, outcome: IsrOutcome) -> bool:
        """Applies the controller's answer for one partition. Returns False if the proposal has to be sent again."""
        partition, tracker, proposal = asked
        if isinstance(outcome, KafkaError):
            logger.debug("%s: the in-sync replicas stay as they are: %s", partition.topic_partition, outcome)
            if isinstance(outcome, _REFUSED) and tracker.pending is proposal:
                self._on_refusal(*asked)
            elif not isinstance(outcome, (*_REFUSED, *_OUTDATED)):
                self._put_back(*asked)
                return False
        elif partition.decided(outcome.leader_epoch, outcome.partition_epoch, outcome.isr):
            logger.debug("%s: the in-sync replicas are now %s", partition.topic_partition, outcome.isr)
            self._on_change(partition)
            self.consider(partition)
        return True

    def consider(self, partition: Partition) -> None:
        """Proposes the next follower that has caught up, now that no proposal is pending."""
        tracker = partition.isr
        if tracker is not None and tracker.next_expand(partition.high_watermark) is not None:
            self.propose(partition)

    def _on_refusal(self, partition: Partition, tracker: IsrTracker, proposal: Expand | Shrink) -> None:
        tracker.give_up()
        if partition.isr is tracker and partition.advance():
            self._on_change(partition)
        if isinstance(proposal, Expand):
            replica, epoch = proposal.replica, tracker.followers[proposal.replica].broker_epoch
            tracker.set_ineligible(replica)
            self._loop.call_later(REFUSED_PAUSE_S, self._again, partition, tracker, replica, epoch)

    def _again(self, partition: Partition, tracker: IsrTracker, replica: int, broker_epoch: int) -> None:
        """Lets a refused follower be proposed again after its pause, if its broker still has that registration."""
        broker = self._image().brokers.get(replica)
        is_there = broker is not None and broker.epoch == broker_epoch
        if partition.isr is tracker and is_there and tracker.registered(replica, broker_epoch):
            self.consider(partition)


def _change(partition: Partition, image: MetadataImage) -> IsrChange:
    """Returns the partition's pending proposal in the form of AlterPartition."""
    tracker = partition.isr
    assert tracker is not None
    assert tracker.pending is not None
    members = [
        InSync(replica, _epoch_of(replica, tracker, tracker.pending, image))
        for replica in partition.replicas
        if replica in tracker.pending.members
    ]
    return IsrChange(
        partition.topic_id,
        partition.topic_partition.partition,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(members),
    )


def _epoch_of(replica: int, tracker: IsrTracker, proposal: Expand | Shrink, image: MetadataImage) -> int:
    """Returns the registration with which ``replica`` is to be in sync.

    For a new member, it is the registration whose fetches justify the proposal, even if a newer one fetches now. The
    controller has confirmed current members itself, as long as the partition epoch is the same.
    """
    if isinstance(proposal, Expand) and replica == proposal.replica:
        return proposal.broker_epoch
    follower, broker = tracker.followers.get(replica), image.brokers.get(replica)
    epoch = follower.broker_epoch if follower is not None else ANY_EPOCH
    return broker.epoch if epoch == ANY_EPOCH and broker is not None else epoch


def _log(partitions: Sequence[TopicPartition], outcomes: Sequence[IsrOutcome]) -> None:
    """Logs one line for a request, however many partitions it covers."""
    counts = Counter(each.name if isinstance(each, KafkaError) else "changed" for each in outcomes)
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    more = f" and {len(partitions) - SHOWN} more" if len(partitions) > SHOWN else ""
    logger.info("in-sync replicas of %s%s: %s", ", ".join(map(str, partitions[:SHOWN])), more, told)
