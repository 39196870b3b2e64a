"""One replica of a partition on this broker: what clients may append to its log, and read from it.

A partition *leads* (appends, serves every read), *follows* (serves the reads that a follower may, KIP-392), is
*offline* (its disk has failed: KAFKA_STORAGE_ERROR), or is *gone* (its topic was deleted). With each change of leader,
the controller gives a new leader epoch. A request that names an epoch is first checked against it (KIP-320): an older
one gets FENCED_LEADER_EPOCH, a newer one UNKNOWN_LEADER_EPOCH. Only then the partition checks whether it leads.

The *high watermark* is the lowest log end of the in-sync replicas (``isr``). Consumers read below it, and a produce
with acks=all is acknowledged when the high watermark has passed its records. The high watermark never falls within an
epoch. While fewer replicas are in sync than ``min.insync.replicas``, it does not advance, so records that few replicas
have are not committed. The *last stable offset* is the end for read_committed.

Pure: it knows no loop, no wire and no clock, and reaches the disk only through its log. ``purgatory`` has the waiting
requests. The caller wakes them after each method whose docstring says so.
"""

from __future__ import annotations

from collections.abc import Collection

from pybroker.cluster.metadata.image import NO_LEADER, PartitionImage
from pybroker.log.appending import AppendInfo, Origin
from pybroker.log.files.leader_epochs import UNDEFINED_EPOCH, EpochEnd
from pybroker.log.log import Log
from pybroker.log.timestamps import TimestampOffset
from pybroker.log.validation import Records
from pybroker.replication.fetch_partition import FetchPartition, Isolation, PartitionRead
from pybroker.replication.isr import Expand, IsrTracker, Shrink
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

NO_EPOCH = -1
HIGH_WATERMARK = -1
ACKS_ALL, ACKS_NONE = -1, 0


class Partition:
    """State of one replica; ``replica_manager`` makes it and moves it from role to role."""

    __slots__ = (
        "_lacks_replicas",
        "_lag_time_max_ms",
        "_unavailable",
        "epoch_start_offset",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        node_id: int,
        log: Log,
        lag_time_max_ms: int = 30_000,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.log = log
        self.is_leader = False
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.epoch_start_offset = 0
        """The log end at which the current leader epoch began."""
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: IsrTracker | None = None
        """The in-sync replicas if this replica leads, else None."""
        self._lag_time_max_ms = lag_time_max_ms
        self._lacks_replicas = False
        self._unavailable: errors.KafkaError | None = None

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"Partition({self.topic_partition}, {role} in epoch {self.leader_epoch})"

    # Roles

    def become(self, image: PartitionImage, now_ms: int) -> bool:
        """Takes the role that the controller has given in ``image``; ``now_ms`` is monotonic.

        Returns True if the leader epoch or the leader has changed. An image with an older leader epoch, or an older
        partition epoch of the same leader epoch, changes nothing.
        """
        known = (self.leader_epoch, self.partition_epoch)
        if (image.leader_epoch, image.partition_epoch) < known:
            return False
        changed = image.leader_epoch > self.leader_epoch or image.leader != self.leader
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        same_replicas = image.replicas == self.replicas
        self.replicas = image.replicas
        self.is_leader = image.leader == self.node_id and self._unavailable is None
        if not self.is_leader:
            self.isr = None
        elif changed or self.isr is None:
            self._begin_epoch(image, now_ms)
        else:
            if not same_replicas:  # even if the controller's answer to a proposal had this partition epoch already
                self.isr.reassign(image.replicas, now_ms)
            if image.partition_epoch > known[1]:
                self.isr.confirm(image.isr)
        self.reconfigured()
        self.advance()
        return changed

    def _begin_epoch(self, image: PartitionImage, now_ms: int) -> None:
        log = self.log
        if image.leader_epoch > log.leader_epochs.latest:
            log.begin_leader_epoch(image.leader_epoch)
        self.epoch_start_offset = log.leader_epochs.entries[-1].start_offset
        self.isr = IsrTracker(
            self.node_id,
            image.replicas,
            image.isr,
            epoch_start_offset=self.epoch_start_offset,
            lag_time_max_ms=self._lag_time_max_ms,
            now_ms=now_ms,
        )

    def reconfigured(self) -> None:
        """Checks ``min.insync.replicas`` again, after a change of the log's configuration or the in-sync replicas."""
        required = min(self.log.config.min_insync_replicas, len(self.replicas))
        self._lacks_replicas = self.isr is not None and len(self.isr.members) < required

    def go_offline(self, error: errors.KafkaStorageError) -> None:
        """Answers every further request with ``error``, because the log's disk has failed."""
        self._leave(error)

    def go(self) -> None:
        """Refuses all further requests, because the topic was deleted or the replica has left this broker."""
        self._leave(errors.UnknownTopicOrPartition(f"{self.topic_partition} is gone"))

    def _leave(self, error: errors.KafkaError) -> None:
        self._unavailable = error
        self.is_leader = False
        self.isr = None

    @property
    def is_available(self) -> bool:
        """False if the partition is offline or gone."""
        return self._unavailable is None

    # Checks

    def check_leader(self, epoch: int = NO_EPOCH) -> None:
        """Checks that this replica leads; if ``epoch`` is given, that it leads in this epoch.

        Raises FencedLeaderEpoch, UnknownLeaderEpoch, NotLeaderOrFollower, KafkaStorageError, UnknownTopicOrPartition.
        """
        if epoch != NO_EPOCH or not self.is_leader:
            self.check(epoch, must_lead=True)

    def check(self, epoch: int, *, must_lead: bool) -> None:
        """Checks what ``check_leader`` checks, but also accepts a follower unless ``must_lead``."""
        if self._unavailable is not None:
            raise type(self._unavailable)(str(self._unavailable))
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            text = f"{self.topic_partition} is in leader epoch {self.leader_epoch}, and the request names {epoch}"
            if epoch < self.leader_epoch:
                raise errors.FencedLeaderEpoch(text)
            raise errors.UnknownLeaderEpoch(text)
        if must_lead and not self.is_leader:
            raise errors.NotLeaderOrFollower(f"{self.topic_partition} is led by {self.leader}, not by {self.node_id}")

    # Writing

    def append(
        self,
        records: Records,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends one batch as the leader and advances the high watermark. The caller wakes the waiting requests.

        Raises NotLeaderOrFollower, NotEnoughReplicas, and the errors of ``Log.append_as_leader``.
        """
        if not self.is_leader:
            self.check(NO_EPOCH, must_lead=True)
        if acks == ACKS_ALL and self._lacks_replicas:
            raise errors.NotEnoughReplicas(self._lacking())
        info = self.log.append_as_leader(
            records,
            self.leader_epoch,
            now_ms,
            origin=origin,
            transaction_version=transaction_version,
        )
        self.advance()
        return info

    def _lacking(self) -> str:
        members = len(self.isr.members) if self.isr is not None else 0
        required = self.log.config.min_insync_replicas
        return f"{self.topic_partition} has {members} in-sync replicas, and min.insync.replicas is {required}"

    def advance(self) -> bool:
        """Advances the high watermark as far as it may go. Returns True if it has moved."""
        isr = self.isr
        if isr is None or self._lacks_replicas:
            return False
        log = self.log
        end = log.log_end_offset
        offset = end if isr.is_alone else isr.least_log_end(end)
        if offset <= log.high_watermark:
            return False
        log.update_high_watermark(offset)
        return True

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are fully replicated. Consumers read only records below it."""
        return self.log.high_watermark

    def is_replicated(self, last_offset: int) -> bool:
        """Returns True if acks=all is fulfilled for the records up to ``last_offset``.

        Raises NotEnoughReplicasAfterAppend, NotLeaderOrFollower, KafkaStorageError,
        UnknownTopicOrPartition.
        """
        if not self.is_leader:
            self.check(NO_EPOCH, must_lead=True)
        if self.log.high_watermark <= last_offset:
            return False
        if self._lacks_replicas:
            raise errors.NotEnoughReplicasAfterAppend(self._lacking())
        return True

    @property
    def is_stuck(self) -> bool:
        """True while the high watermark cannot advance: fewer replicas are in sync than min.insync.replicas."""
        return self._lacks_replicas

    # Reading

    def read(
        self,
        wanted: FetchPartition,
        max_bytes: int,
        isolation: Isolation,
        *,
        min_one: bool,
        must_lead: bool,
    ) -> PartitionRead:
        """Reads at most ``max_bytes`` for a fetch, but with ``min_one`` at least one batch.

        Beyond a follower's end it raises NotLeaderOrFollower, since the leader may have these records: OffsetOutOfRange
        would make a client reset its offset. Raises OffsetOutOfRange, CorruptMessage, and the errors of
        ``check_leader``.
        """
        if not self.is_leader or wanted.current_leader_epoch != NO_EPOCH:
            self.check(wanted.current_leader_epoch, must_lead=must_lead)
        log = self.log
        if not self.is_leader and wanted.fetch_offset > log.log_end_offset:
            raise errors.NotLeaderOrFollower(
                f"this follower of {self.topic_partition} does not have offset {wanted.fetch_offset} yet"
            )
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        result = PartitionRead(high_watermark, stable, log.log_start_offset)
        if wanted.last_fetched_epoch != NO_EPOCH:
            result.diverging = self._divergence(wanted)
            if result.diverging is not None:
                return result
        bound = high_watermark
        if isolation is not Isolation.READ_UNCOMMITTED:
            bound = stable if isolation is Isolation.READ_COMMITTED else log.log_end_offset
        if wanted.fetch_offset != bound:
            found = log.read(wanted.fetch_offset, min(max_bytes, wanted.max_bytes), bound, min_one)
            result.records = found.records
            result.size = found.size
        if isolation is Isolation.READ_COMMITTED:
            result.aborted = []
            if result.size:
                result.aborted = log.aborted_transactions(found.first_offset, found.next_offset)
        return result

    def _divergence(self, wanted: FetchPartition) -> EpochEnd | None:
        """Returns the newest epoch that both histories share, with its end. Returns None if the histories agree
        (KIP-595).
        """
        end = self.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if end.epoch == UNDEFINED_EPOCH:
            raise errors.OffsetOutOfRange(f"{self.topic_partition} has no leader epoch {wanted.last_fetched_epoch}")
        if wanted.fetch_offset < self.log.log_start_offset:
            raise errors.OffsetOutOfRange(f"offset {wanted.fetch_offset} is below {self.log.log_start_offset}")
        if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
            return end
        return None

    # Followers

    def on_follower_fetch(
        self,
        replica: int,
        offset: int,
        log_start_offset: int,
        now_ms: int,
        broker_epoch: int = -1,
        *,
        is_eligible: bool = True,
    ) -> Expand | None:
        """Notes that a follower fetched from ``offset``, below which both logs agree. May propose to add the follower
        to the ISR.

        ``broker_epoch`` identifies its registration. It may join only if ``is_eligible``. The caller wakes the waiting
        requests. Raises UnknownLeaderEpoch, and the errors of ``check_leader``.
        """
        self.check_leader()
        assert self.isr is not None
        if replica not in self.isr.followers:
            raise errors.UnknownLeaderEpoch(f"broker {replica} has no replica of {self.topic_partition}")
        proposal = self.isr.on_fetch(
            replica,
            offset,
            log_start_offset,
            leader_end=self.log.log_end_offset,
            high_watermark=self.log.high_watermark,
            now_ms=now_ms,
            broker_epoch=broker_epoch,
            is_eligible=is_eligible,
        )
        self.advance()
        return proposal

    def decided(self, leader_epoch: int, partition_epoch: int, members: Collection[int]) -> bool:
        """Applies the controller's answer to a proposal, which may come before the metadata.

        Returns True if the answer has changed anything; the caller then wakes the waiting requests. A smaller set is
        not applied before the metadata. The controller may know a ``min.insync.replicas`` that has not arrived here,
        and keep the removed replica eligible for election (KIP-966). Then no record may be committed without that
        replica.
        """
        if self.isr is None or leader_epoch != self.leader_epoch or partition_epoch <= self.partition_epoch:
            return False
        if not self.isr.members <= {*members, self.node_id}:
            return False
        self.partition_epoch = partition_epoch
        self.isr.confirm(members)
        self.reconfigured()
        self.advance()
        return True

    def on_tick(self, now_ms: int) -> Shrink | None:
        """Proposes to remove followers that have fallen behind; ``now_ms`` is monotonic."""
        if self.isr is None or not self.isr.followers:
            return None
        return self.isr.on_tick(self.log.log_end_offset, now_ms)

    # Offsets

    def latest_offset(self, isolation: Isolation) -> int:
        """Returns the offset at which reads of that isolation end."""
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset
        if isolation is Isolation.LOG_END:
            return self.log.log_end_offset
        return self.log.high_watermark

    def check_offsets_are_known(self, isolation: Isolation) -> None:
        """Raises OffsetNotAvailable while a new leader's high watermark is below the start of its epoch (KIP-207).

        A transaction that was open at the start of the epoch does not matter. In Kafka, read_committed consumers cannot
        find the end before such a transaction has ended.
        """
        if isolation is not Isolation.LOG_END and self.log.high_watermark < self.epoch_start_offset:
            raise errors.OffsetNotAvailable(
                f"the high watermark of {self.topic_partition} has not reached the start of its leader's epoch"
            )

    def earliest_offset(self) -> TimestampOffset:
        """Returns the log start, with the leader epoch in which it was written (-1: unknown)."""
        log = self.log
        entries = log.leader_epochs.entries
        epoch = NO_EPOCH
        if entries and entries[0].start_offset <= log.log_start_offset:
            epoch = entries[0].epoch
        return TimestampOffset(-1, log.log_start_offset, epoch)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Returns the newest epoch up to ``epoch``, and that epoch's end offset (KIP-101)."""
        return self.log.end_offset_for_epoch(epoch)

    # Deleting records

    def delete_records(self, offset: int) -> int:
        """Deletes the records below ``offset`` (-1: the high watermark); returns the offset.

        The caller wakes the waiting requests. Raises PolicyViolation, OffsetOutOfRange, and the errors of
        ``check_leader``.
        """
        self.check_leader()
        log = self.log
        if not log.config.is_deleted_by_retention:
            raise errors.PolicyViolation(
                f"{self.topic_partition.topic} is compacted only: its records are never deleted"
            )
        if offset == HIGH_WATERMARK:
            offset = log.high_watermark
        if offset < 0:
            raise errors.OffsetOutOfRange(f"offset {offset} is negative")
        log.raise_log_start_offset(offset)
        return offset

    def low_watermark(self) -> int:
        """Returns the lowest log start of all replicas. Raises the errors of ``check_leader``."""
        self.check_leader()
        assert self.isr is not None
        return self.isr.low_watermark(self.log.log_start_offset)
