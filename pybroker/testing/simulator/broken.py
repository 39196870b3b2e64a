"""How a broken protocol breaks production code: the methods that it replaces, as long as its histories run.

Each function gives (owner, name, value) for ``environment.patched``; ``mutants`` has the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pybroker.cluster.decisions import elections, isr_changes, reassignments
from pybroker.cluster.decisions.elections import Standing
from pybroker.cluster.decisions.topic_rules import MIN_ISR, TopicRules
from pybroker.cluster.following import newest
from pybroker.cluster.membership import Membership
from pybroker.cluster.nodes.loading import load_deleted
from pybroker.coordinator import runtime
from pybroker.coordinator.replies import send
from pybroker.coordinator.runtime import Runtime
from pybroker.coordinator.txn import ending, initialising
from pybroker.coordinator.txn.marker_sender import MarkerSender
from pybroker.coordinator.txn.shard import TransactionShard
from pybroker.handlers.common import admission
from pybroker.log import expiry, recovery
from pybroker.log.config import LogConfig
from pybroker.log.durability import Durability
from pybroker.log.files import partition_metadata
from pybroker.log.files.leader_epochs import EpochEnd
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.retention import Candidate, expired_count
from pybroker.log.segment_files import SegmentFiles
from pybroker.replication import follower
from pybroker.replication.follower import Followed
from pybroker.replication.isr import Expand, IsrTracker, Shrink
from pybroker.replication.partition import Partition
from pybroker.replication.promises import Promises
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.testing.defects import coordinator
from pybroker.testing.simulator.environment import Patch
from pybroker.testing.simulator.store import SimulatedStore


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _true(*_: Any, **__: Any) -> bool:
    return True


# What Kafka had


def truncate_to_watermark() -> list[Patch]:
    """A follower cuts its log to its high watermark when it begins to follow (before KIP-101)."""
    begin = Followed.__init__

    def follow(self: Followed, partition: Partition, wall_ms: int) -> None:
        begin(self, partition, wall_ms)
        log = partition.log
        if log.log_end_offset > log.high_watermark:
            log.truncate_to(log.high_watermark, wall_ms)

    return [(Followed, "__init__", follow), (Partition, "_divergence", _nothing)]


def own_epoch_only() -> list[Patch]:
    """A follower asks for its own last epoch only; the leader does not say which one it has answered (KIP-279)."""

    def divergence(self: Partition, wanted: Any) -> EpochEnd | None:
        end = self.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        return end if end.end_offset < wanted.fetch_offset else None

    def take(self: Followed, answer: Any, wall_ms: int) -> bool:
        if answer.diverging_epoch is None:
            return before(self, answer, wall_ms)
        log = self.partition.log
        log.truncate_to(min(answer.diverging_epoch.end_offset, log.log_end_offset), wall_ms)
        return True

    before = Followed.take
    return [(Partition, "_divergence", divergence), (Followed, "take", take)]


def last_replica() -> list[Patch]:
    """The last replica of the in-sync set leads again after it has lost what was not synced (KIP-966)."""

    def trusted(partition: Any, lost: Any) -> tuple[Any, Any]:
        return partition.isr, partition.elr

    def without(partition: Any, fit: Any, lost: Any, min_isr: int) -> Any:
        return before(partition, fit, (), min_isr)

    before = elections._without_unfit
    return [(elections, "_trusted", trusted), (elections, "_without_unfit", without)]


def shared_epoch() -> list[Patch]:
    """Transactions of v1 share an epoch: an EndTxn that comes late ends the next one (KIP-890)."""
    return []


def late_markers() -> list[Patch]:
    """A marker that comes late ends the next transaction (KIP-1228)."""
    return [(ProducerStates, "check_marker", _nothing)]


# High watermark, acknowledgement


def ignores_members() -> list[Patch]:
    """The high watermark is the leader's log end."""
    return [(IsrTracker, "least_log_end", lambda self, leader_end: leader_end)]


def ignores_proposed() -> list[Patch]:
    """Who may be in sync by now, as was proposed, is not counted."""
    return [(IsrTracker, "_others", lambda self: tuple(self.members & self.followers.keys()))]


def ack_at_once() -> list[Patch]:
    """acks=all is answered after the append."""
    return [(Promises, "promise", _nothing)]


def shrinks_at_once() -> list[Patch]:
    """Who falls behind is not counted before the controller has agreed."""

    def propose(self: IsrTracker, proposal: Any) -> Any:
        if isinstance(proposal, Shrink):
            self.members = proposal.members
        return before(self, proposal)

    before = IsrTracker._propose
    return [(IsrTracker, "_propose", propose)]


def expands_too_soon() -> list[Patch]:
    """A follower is proposed before it has caught up."""

    def expand(self: IsrTracker, replica: int, high_watermark: int) -> Any:
        follower = self.followers[replica]
        if not follower.is_eligible:
            return None
        return self._propose(Expand(replica, self.members | {replica}, follower.broker_epoch))

    return [(IsrTracker, "_expand", expand)]


def any_min_insync() -> list[Patch]:
    """A leader alone commits, whatever min.insync.replicas says."""

    def reconfigured(self: Partition) -> None:
        self._lacks_replicas = False

    return [(Partition, "reconfigured", reconfigured)]


def largest_min_insync() -> list[Patch]:
    """Who leaves the ISR stays eligible by the largest of the replicas' min.insync.replicas, under any leader."""

    def min_isr(self: TopicRules, topic: Any, partition: Any) -> int:
        own = topic.configs.get(MIN_ISR)
        return int(own) if own else max(self._min_isr.values(), default=1)

    return [(TopicRules, "min_isr", min_isr)]


def falls_with_epoch() -> list[Patch]:
    """The high watermark is whatever the followers have now."""

    def advance(self: Partition) -> bool:
        if self.isr is None:
            return False
        end = self.log.log_end_offset
        self.log.update_high_watermark(self.isr.least_log_end(end))
        return True

    return [(Partition, "advance", advance)]


# Elections


def same_epoch() -> list[Patch]:
    """A new leader in the old epoch."""

    def led(partition: Any, leader: int, isr: Any, elr: Any) -> Any:
        return replace(before(partition, leader, isr, elr), leader_epoch=partition.leader_epoch)

    before = elections._led
    return [(elections, "_led", led)]


def unclean() -> list[Patch]:
    """Any broker that is alive leads."""

    def elect(partition: Any, alive: Any, *, unclean: bool = False, lost: Any = (), min_isr: int = 1) -> Any:
        return before(partition, alive, unclean=True, lost=lost, min_isr=min_isr)

    before = elections.elect
    return [(elections, "elect", elect)]


def no_partition_epochs() -> list[Patch]:
    """AlterPartition of a leader of the past, or with a broker that has gone."""

    def check(image: Any, topic: Any, partition: Any, leader: int, change: Any) -> None:
        """Every proposal is believed."""

    return [(isr_changes, "_check", check)]


def forgets_machines() -> list[Patch]:
    """Who was gone when its machine came back has lost nothing."""

    def of(cls: Any, brokers: Any, known: Any, boots: Any) -> Standing:
        return before(brokers, known, {id: broker.boot for id, broker in known.items()})

    before = Standing.of
    return [(Standing, "of", classmethod(of))]


def follows_too_soon() -> list[Patch]:
    """A broker shows an image in which it is not registered."""

    async def follow(self: Membership) -> bool:
        if self._cache.image.version == 0:
            image = await newest(self._store, self._cache.image)
            await self._service.follow(image, await load_deleted(self._store))
        self._following.start()
        return True

    return [(Membership, "_follow", follow)]


def keeps_epoch_of_moves() -> list[Patch]:
    """A fetch of a removed replica counts when it is one again."""
    return [(reassignments, "fenced", lambda before, after: after)]


# Followers, logs


def starts_over() -> list[Patch]:
    """A log that diverges is cut below what both have."""

    return [(follower, "agreed_end", lambda log, leader: 0)]


def never_cuts() -> list[Patch]:
    """Logs that diverge are never cut."""
    return [(Partition, "_divergence", _nothing)]


def unsynced() -> list[Patch]:
    """flush.acks without a sync."""
    return [(SegmentFiles, "sync", _nothing)]


def forgets_duplicates() -> list[Patch]:
    """A batch that is sent again is appended again."""
    return [(ProducerStates, "check", _nothing)]


def recovers_to_checkpoint() -> list[Patch]:
    """After a kill what was not synced is gone."""

    def load(self: Any) -> Log:
        log = before(self)
        if not self.clean:
            log.truncate_to(self.checkpointed.recovery_point, self.now_ms)
        return log

    before = recovery._Loader.load
    return [(recovery._Loader, "load", load)]


# Transactions


def any_end_txn() -> list[Patch]:
    """The epoch of an EndTxn is not looked at."""
    return [(ending, "_is_valid_epoch", _true)]


def effects_at_once() -> list[Patch]:
    """Markers go out before the outcome is on the replicas."""

    def when_safe(self: Any, hosted: Any, effects: list[object], promise: Any) -> None:
        for effect in effects:
            self._do(hosted.name.partition, effect)

    return [(Runtime, "_when_safe", when_safe)]


def tells_at_once() -> list[Patch]:
    """A coordinator answers before what it tells is on the replicas."""
    return [(runtime, "send", lambda replies, promise: send(replies, None))]


def swallows_answers() -> list[Patch]:
    """An event that raises loses the answers that it had taken out; the refusal of an upgrade comes after them."""
    return [
        *coordinator.an_upgrade_sends_away_before_it_is_sure(),
        *coordinator.answers_of_an_event_that_raises_are_lost(),
    ]


def loads_nothing() -> list[Patch]:
    """A new coordinator loads nothing."""

    async def load(self: Any, hosted: Any) -> None:
        hosted.loading = None

    return [(Runtime, "_load", load)]


def ends_nothing_loaded() -> list[Patch]:
    """A new coordinator does not finish what was prepared."""

    def loaded(self: TransactionShard, result: Any) -> None:
        before(self, result)
        result.effects.clear()

    before = TransactionShard.loaded
    return [(TransactionShard, "loaded", loaded)]


def gives_up_markers() -> list[Patch]:
    """A marker that was not taken is not sent again."""

    async def end(self: MarkerSender, partition: int, leader_epoch: int, ending: Any) -> None:
        marker = EndTxnMarker(ending.producer_id, ending.producer_epoch, leader_epoch, ending.committed, ending.version)
        await self._deliver(marker, set(ending.partitions), ending.transactional_id)
        await self._host.complete(partition, ending)

    return [(MarkerSender, "_end", end)]


def owners_share() -> list[Patch]:
    """A new owner of a transactional id has the epoch of the old one."""

    def following(transaction: Any, expected: Any, ids: Any) -> tuple[int, int, int]:
        return transaction.producer_id, transaction.epoch, -1

    return [(initialising, "_next", following)]


def reads_uncommitted() -> list[Patch]:
    """Consumers read what is not decided yet."""
    return [(Log, "last_stable_offset", property(lambda self: self.high_watermark))]


def unverified() -> list[Patch]:
    """A late write begins a transaction that nobody ends."""
    return [(admission, "inquiry", lambda *_: None)]


def aborted_unnamed() -> list[Patch]:
    """Consumers are not told what was aborted."""
    return [(Log, "aborted_transactions", lambda *_: [])]


# Topics, what stays of logs


def keeps_no_limit() -> list[Patch]:
    """Retention by size removes all that it can."""
    before = expired_count

    def count(segments: list[Candidate], config: LogConfig, *facts: int) -> int:
        return before(segments, replace(config, retention_bytes=min(config.retention_bytes, 0)), *facts)

    return [(expiry, "expired_count", count)]


def topics_share_a_log() -> list[Patch]:
    """A deletion leaves the logs, and the next topic of the name goes on in them."""

    def set_topic_id(self: Log, topic_id: bytes) -> None:
        self.topic_id = partition_metadata.ZERO_ID
        before(self, topic_id)

    before = Log.set_topic_id
    return [
        (LogManager, "delete_all", _nothing),
        (ReplicaManager, "_set_logs_aside", _nothing),
        (Log, "set_topic_id", set_topic_id),
    ]


def cuts_stay_synced() -> list[Patch]:
    """What is cut off a log counts as synced still."""
    return [(Durability, "lower", _nothing)]


# Sessions


def sessions_of_the_dead() -> list[Patch]:
    """The session of a broker whose loop hangs lives on."""
    return [(SimulatedStore, "halted", _nothing)]
