"""The log of one partition replica: record batches in order, in segments, in Kafka's own files.

Offsets, always ``log_start_offset <= high_watermark <= log_end_offset``:

* ``log_start_offset``: the first one that may be read; raised by retention and DeleteRecords.
* ``recovery_point``: everything below is on the disk. Only ``flush`` raises it, only a truncation
  lowers it.
* ``last_stable_offset``: read_committed consumers read below it; the high watermark, or the first
  transaction still open below it.
* ``high_watermark``: consumers read below it; set by the partition, kept within the log's bounds.
* ``log_end_offset``: the next record's.

A batch is appended as the bytes that came in: checked, its base offset and leader epoch written
into the header in place, one ``pwrite``. An append that fails half-way is cut off again, fails the
log dir and is not acknowledged.

**What survives.** Without flush settings an append is in the page cache: it survives the end of
the process, not of the machine. ``flush`` (called for flush.messages, flush.ms, when a segment is
sealed, and by group commit for ``flush.acks``) syncs the data, then the files' names, then moves
``recovery_point``; what a crash leaves beyond it is checked by ``recovery``.

Thread-safety: loop's thread only, except ``flush`` and ``flush_sealed``, which any pool thread may
call at any time.
"""

from __future__ import annotations

from cy.batch import Batch, assign, set_log_append_time, set_max_timestamp
from pybroker.log import marker as markers
from pybroker.log import partition_metadata
from pybroker.log.appending import AppendInfo, Origin, runs, whole_batches, writable
from pybroker.log.batches import MalformedBatch
from pybroker.log.config import LogConfig
from pybroker.log.leader_epochs import EpochEnd, LeaderEpochs
from pybroker.log.log_dir import LogDir
from pybroker.log.marker import ABORT, Marker
from pybroker.log.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.producer_entry import BatchMetadata
from pybroker.log.producer_state import ProducerStates
from pybroker.log.reading import ReadableLog
from pybroker.log.replay import append_marker, duplicate_of, producers_at, replay_producers
from pybroker.log.retention import Candidate, expired_count
from pybroker.log.rolling import Rolling
from pybroker.log.segment import Segment
from pybroker.log.segments import Segments
from pybroker.log.storage import EXHAUSTED, Bytes
from pybroker.log.validation import UNPACKED_ON_LOOP, Prepared, rules_for
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class Log(ReadableLog):
    """One partition's log. Built by ``recovery.load`` or ``LogManager``."""

    __slots__ = (
        "_config",
        "_flush_messages",
        "_log_append_time",
        "_rolling",
        "_rules",
        "_segment_bytes",
        "high_watermark",
        "last_flush_ms",
        "topic_id",
    )

    def __init__(
        self,
        log_dir: LogDir,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        segments: Segments,
        producers: ProducerStates,
        leader_epochs: LeaderEpochs,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        super().__init__(
            log_dir,
            folder,
            topic_partition,
            segments,
            producers,
            leader_epochs,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
        )
        self.topic_id = topic_id
        self.high_watermark = log_start_offset
        self.last_flush_ms = now_ms
        self.config = config

    # What the log is

    @property
    def config(self) -> LogConfig:
        """The topic's configuration; may be replaced at any time."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._rules = rules_for(config)
        self._log_append_time = config.uses_log_append_time
        self._segment_bytes = config.segment_bytes
        self._flush_messages = config.flush_messages
        self._rolling = Rolling(self._config, self._active, str(self.topic_partition))

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided and replicated (or its first records deleted)."""
        unstable = self.producers.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if unstable is None else max(self.log_start_offset, min(unstable, high_watermark))

    def update_high_watermark(self, offset: int) -> int:
        """Sets the high watermark, kept within the log's bounds; returns what it is now."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        elif offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return offset

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where ``epoch`` ended in this log (OffsetForLeaderEpoch)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def begin_leader_epoch(self, epoch: int) -> None:
        """This replica leads from here on, in ``epoch``."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def set_topic_id(self, topic_id: bytes) -> None:
        """Writes the id of a log that has none yet.

        Raises InconsistentTopicId where it has another one.
        """
        if self.topic_id not in (topic_id, partition_metadata.ZERO_ID):
            raise errors.InconsistentTopicId(f"log {self.folder} belongs to another topic of this name")
        if self.topic_id != topic_id:
            with self._refusing("writing partition.metadata"):
                partition_metadata.write(self.log_dir.storage, self.folder, topic_id)
            self.topic_id = topic_id
            self._durability.topic_id_synced = False
            self._durability.names_synced = False

    def doubt_files(self) -> None:
        """After an unclean stop: the topic id may never have been synced; the next flush does it."""
        self._durability.topic_id_synced = self.topic_id == partition_metadata.ZERO_ID

    # Appending

    def append_as_leader(
        self,
        records: Bytes,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        prepared: Prepared | None = None,
    ) -> AppendInfo:
        """Appends one v2 batch and gives it offsets.

        ``transaction_version``: that of the transaction to which it belongs (see ``ProducerStates``).
        A client's batch that would hold the loop raises TooHeavy, until it comes ``prepared``.
        ``records`` is changed in place where it is writable. Raises errors.KafkaError:
        CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge,
        UnsupportedCompressionType, OutOfOrderSequenceNumber, DuplicateSequenceNumber,
        InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced, KafkaStorageError.
        """
        if self.log_dir.offline:
            raise self.log_dir.storage_error()
        from_client = origin is Origin.CLIENT
        rules = self._rules
        if prepared is not None and prepared.rules is rules:
            batch = prepared.batch
        else:
            batch = rules.check(
                records, now_ms, from_client=from_client, max_output=UNPACKED_ON_LOOP if from_client else None
            )
            prepared = None
        marker = markers.decode(records) if batch.is_control else None
        if batch.producer_id >= 0:
            if batch.is_control:
                self.producers.check_marker(batch, marker, transaction_version)
            else:
                earlier = self._duplicate_of(batch, transaction_version, from_client)
                if earlier is not None:
                    time = earlier.timestamp if self._log_append_time else -1
                    return AppendInfo(earlier.first_offset, earlier.last_offset, time, self.log_start_offset, True)
        if prepared is not None:
            records = writable(prepared.records)
        else:
            records = writable(
                rules.repacked_on_loop(records, batch) if from_client else rules.recompressed(records, batch)
            )
        first = self.log_end_offset
        last = first + batch.last_offset_delta
        timestamp = batch.records_max_timestamp
        if self._log_append_time:
            timestamp = now_ms
            set_log_append_time(records, now_ms)
        elif timestamp != batch.max_timestamp:
            set_max_timestamp(records, timestamp)
        assign(records, first, leader_epoch)
        segment = self._segment_for(len(records), last, timestamp, now_ms, first)
        try:
            if marker is not None and marker.kind == ABORT:
                segment.txn_index.hold()
            segment.append(records, last, timestamp)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, first)
        if batch.producer_id >= 0:
            self._remember_producer(batch, marker, first, last, timestamp, now_ms)
        self.log_end_offset = last + 1  # now that a sync from another thread finds all that belongs to it
        if last + 1 - self._durability.recovery_point >= self._flush_messages:
            self.flush()
        return AppendInfo(first, last, now_ms if self._log_append_time else -1, self.log_start_offset)

    def append_as_follower(self, records: Bytes, leader_epoch: int, now_ms: int) -> AppendInfo | None:
        """Appends batches as the leader wrote them.

        A batch cut by the end of ``records`` is left out, and what is of a newer epoch than
        ``leader_epoch``, in which they were asked for (``whole_batches``). Returns None where
        nothing is left of ``records``. An empty log begins where the first batch does: the leader's
        log start, which is this log's too then, may lie within it. Raises UnexpectedOffset,
        CorruptMessage, KafkaStorageError.
        """
        self.log_dir.check_online()
        is_empty = self.log_start_offset == self.log_end_offset
        batches = whole_batches(records, self.log_end_offset, leader_epoch, may_begin_below=is_empty)
        if not batches:
            return None
        first = batches[0].base_offset
        if first < self.log_end_offset:
            self.truncate_fully_and_start_at(first, now_ms)
        view = memoryview(records)
        for run in runs(batches, self._segment_bytes - self._active.size, self._segment_bytes):
            self._append_run(run, view[run[0].position : run[-1].end], now_ms)
        if self.log_end_offset - self._durability.recovery_point >= self._flush_messages:
            self.flush()
        return AppendInfo(first, self.log_end_offset - 1, -1, self.log_start_offset)

    def _append_run(self, run: list[Batch], data: memoryview, now_ms: int) -> None:
        last, timestamp = run[-1].last_offset, max(batch.max_timestamp for batch in run)
        segment = self._segment_for(len(data), last, timestamp, now_ms, run[0].base_offset)
        try:
            if any(batch.is_control for batch in run):
                segment.txn_index.hold()
            segment.append_all(data, run)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        for batch in run:
            self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                start = batch.position - run[0].position
                marker = markers.decode(data[start : start + batch.size]) if batch.is_control else None
                self._remember_producer(
                    batch, marker, batch.base_offset, batch.last_offset, batch.max_timestamp, now_ms
                )
        self.log_end_offset = last + 1

    def _segment_for(self, length: int, last: int, timestamp: int, now_ms: int, first: int) -> Segment:
        """The active segment, or where it is full the next one.

        That begins where this one ends, even if the leader's next offset is larger (compaction):
        recovery takes a gap between segments for a loss. An offset too far away to be relative is
        the exception.
        """
        segment = self._active
        try:
            if segment.size:
                is_due = self._rolling.is_due(segment, length, last, timestamp, now_ms)
            else:
                is_due = last - segment.base_offset > MAX_RELATIVE_OFFSET
        except (OSError, MalformedBatch):
            with self._refusing("looking for the age of a segment"):
                raise
        if is_due:
            fits = last - self.log_end_offset <= MAX_RELATIVE_OFFSET
            return self.roll(now_ms, self.log_end_offset if fits else first)
        return segment

    def _duplicate_of(self, batch: Batch, transaction_version: int, from_client: bool) -> BatchMetadata | None:
        try:
            return duplicate_of(self.producers, self.segments, batch, transaction_version, from_client)
        except OSError as error:
            raise self.log_dir.refuse(error, f"looking back in {self.segments[0].path}") from error

    def _append_failed(self, segment: Segment, error: OSError) -> errors.KafkaStorageError:
        """Takes the dir offline. Half a batch is cut off; a whole one whose index failed stays, unacknowledged."""
        doing = f"appending to {segment.path}"
        if not segment.is_open or error.errno in EXHAUSTED:
            return self.log_dir.refuse(error, doing)  # nothing was written
        segment.cut_failed_write()
        return self.log_dir.fail(error, doing)

    def _remember_producer(
        self, batch: Batch, marker: Marker | None, first: int, last: int, timestamp: int, now_ms: int
    ) -> None:
        if not batch.is_control:
            self.producers.append(batch, first, last, timestamp, now_ms)
        elif marker is not None:
            index = self._active.txn_index
            with self._failing("writing the transaction index"):
                if append_marker(self.producers, index, batch, marker, first, timestamp, now_ms):
                    index.save_if_possible()
                    self._durability.names_synced = False  # it may be new

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seals the active segment and starts another one at the log's end.

        Raises KafkaStorageError.
        """
        base_offset = self.log_end_offset if base_offset is None else base_offset
        with self._refusing("rolling a segment"):
            sealed = self._active
            if sealed.size == 0 and sealed.base_offset == base_offset:
                return sealed
            sealed.seal()
            self.producers.take_snapshot(base_offset)
            segment = self._new_segment(base_offset, now_ms)
            self.segments.add(segment)
            self._activate(segment)
        self.log_dir.on_roll(self)
        return self._active

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        log_dir = self.log_dir
        segment = Segment.create(log_dir.storage, log_dir.cache, self.folder, base_offset, now_ms)
        self._durability.names_synced = False  # now that it is there: a sync may be running
        return segment

    def _activate(self, segment: Segment) -> None:
        self._active = segment
        self._rolling = Rolling(self._config, self._active, str(self.topic_partition))

    # Shortening

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Removes every batch with a record at or beyond ``offset``; True if there was one.

        Raises KafkaStorageError.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset <= self.first_segment_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        with self._refusing("truncating"):  # whatever needs a descriptor comes before the first change
            segment = self.segments[self.segments.find(offset)]
            cut = segment.batch_reaching(offset)
            end = offset if cut is None else min(offset, cut.batch.base_offset)
            self.segments.last_below(offset).hold()
            producers = None if self.producers.can_undo_to(end) else self._producers_at(end)
        self._lower(end)
        with self._failing("truncating"):
            self._remove_segments(self.segments.remove_from(offset)[::-1])
            self._active = self.segments[-1]
            if cut is not None and segment is self._active:
                segment.truncate(cut.position)
            self._ends_at(self._active.read_end() + 1, producers)
        return True

    def _producers_at(self, offset: int) -> ProducerStates:
        return producers_at(self.producers, self.segments, min(self.log_start_offset, offset), offset)

    def _lower(self, offset: int) -> None:
        """What the checkpoint files say of the log goes down before it does. Raises KafkaStorageError."""
        self._durability.lower(offset)
        clean_offset = self.clean_offset
        if clean_offset > offset:
            try:
                self.clean_offset = offset
                self.log_dir.checkpoint_clean_offsets()
            except errors.KafkaStorageError:
                self.clean_offset = clean_offset
                raise

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Removes everything; the next record's offset is ``offset``. Raises KafkaStorageError."""
        log_dir = self.log_dir
        with self._refusing("truncating"):  # whatever needs a descriptor comes before the first change
            segment = Segment.prepare(log_dir.storage, log_dir.cache, self.folder, offset, now_ms)
            producers = producers_at(self.producers, Segments([]), offset, offset)
        self._lower(offset)
        with self._failing("truncating"):
            self._remove_segments(self.segments.snapshot()[::-1])
            self.log_start_offset = offset
            segment.place()
            self._durability.names_synced = False  # now that it is there: a sync may be running
            self.segments.start_over(segment)  # not before: other threads find some segment at any time
            self._activate(segment)
            self._ends_at(offset, producers)
            self.producers.remove_snapshots(lambda at: at != offset)

    def _ends_at(self, offset: int, producers: ProducerStates | None) -> None:
        """The log has been cut to ``offset``: everything that is derived from it follows. ``producers``: what they
        were there, where that cannot be told by undoing.
        """
        self.log_end_offset = offset
        self._durability.lower(offset)  # again: a sync may have begun before the cut
        self.log_start_offset = min(self.log_start_offset, offset)
        self.clean_offset = min(self.clean_offset, offset)
        self.high_watermark = max(self.log_start_offset, min(self.high_watermark, offset))
        self.leader_epochs.truncate_from_end(offset)
        self._rolling = Rolling(self._config, self._active, str(self.topic_partition))
        if producers is not None:
            self.producers.become(producers)
            self.producers.remove_snapshots(lambda at: at > offset)
            self.producers.end_offset = offset
        elif not self.producers.undo_to(offset):
            replay_producers(self.producers, self.segments, self.log_start_offset, offset)
        self.producers.on_high_watermark(self.high_watermark)

    def raise_log_start_offset(self, offset: int) -> None:
        """Records below ``offset`` are gone (DeleteRecords, or the leader's start).

        Raises OffsetOutOfRange.
        """
        if offset > self.high_watermark:
            raise errors.OffsetOutOfRange(f"offset {offset} is beyond the high watermark of {self}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int) -> int:
        """Deletes the oldest segments that retention takes; returns how many.

        Raises KafkaStorageError.
        """
        self.log_dir.check_online()
        if self.log_end_offset == self.first_segment_offset:
            return 0
        with self._refusing("applying retention"):
            candidates = [
                Candidate(self.segments.end_offset(number, self.log_end_offset), segment)
                for number, segment in enumerate(self.segments)
            ]
            count = expired_count(candidates, self._config, self.log_start_offset, self.high_watermark, now_ms)
            if count == len(self.segments) and not self._active.size:
                count -= 1
            elif count == len(self.segments):
                self.roll(now_ms)
            self._delete_first(count)
        return count

    def _delete_first(self, count: int) -> None:
        if count <= 0:
            return
        removed = self.segments.remove_first(count)
        self.raise_log_start_offset(max(self.log_start_offset, self.first_segment_offset))
        first = self.first_segment_offset
        self.producers.remove_snapshots(lambda offset: offset < first)
        self._remove_segments(removed)

    def _remove_segments(self, removed: list[Segment]) -> None:
        paths = [path for segment in removed for path in segment.delete()]
        self.log_dir.discard(paths)
