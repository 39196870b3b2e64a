"""The log of one partition replica: record batches in order, in segments, in Kafka's own files.

Offsets, always ``log_start_offset <= high_watermark <= log_end_offset``:

* ``log_start_offset``: the first offset that may be read. Retention and DeleteRecords raise it.
* ``recovery_point``: everything below it is on the disk. Only ``flush`` raises it, only a truncation
  lowers it.
* ``last_stable_offset``: read_committed consumers read below it. It is the high watermark, or the start
  of the first transaction that is still open below the high watermark.
* ``high_watermark``: consumers read below it. The partition sets it, within the log's bounds.
* ``log_end_offset``: the offset of the next record.

An append checks the received bytes of a batch, puts base offset and leader epoch into the header, and
writes the bytes by one ``pwrite``. If it fails half-way, its bytes are removed again, the log dir goes
offline, and the batch is not acknowledged.

``durability`` explains what survives a crash.

Thread-safety: loop's thread only, except ``flush`` and ``flush_sealed``, which any pool thread may
call at any time.
"""

from __future__ import annotations

from cy.batch import Batch
from pybroker.config.log_config import MAX_LONG, LogConfig
from pybroker.log import truncation
from pybroker.log.appending import AppendInfo, Origin, runs, stamped, whole_batches
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import partition_metadata
from pybroker.log.files.batches import MalformedBatch
from pybroker.log.files.leader_epochs import EpochEnd, LeaderEpochs
from pybroker.log.files.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.files.storage import Bytes
from pybroker.log.files.txn_index import AbortedTransaction, overlapping
from pybroker.log.log_files import LogFiles
from pybroker.log.producers import marker as markers
from pybroker.log.producers.marker import ABORT, Marker
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.replay import append_marker, duplicate_of
from pybroker.log.rolling import Rolling
from pybroker.log.segment.log_slice import LogSlice
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segments import Segments
from pybroker.log.validation import CheckedBatch, Records, rules_for
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class Log:
    """The log of one partition replica. ``recovery``, ``reopening`` or ``LogManager`` creates it."""

    __slots__ = (
        "_active",
        "_config",
        "_durability",
        "_flush_messages",
        "_log_append_time",
        "_rolling",
        "_rules",
        "_segment_bytes",
        "clean_offset",
        "files",
        "high_watermark",
        "last_flush_ms",
        "leader_epochs",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "segments",
        "topic_id",
        "topic_partition",
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
        self.files = LogFiles(log_dir, folder, topic_partition, segments, producers, leader_epochs, recovery_point)
        self.log_dir = log_dir
        self.topic_partition = topic_partition
        self.segments = segments
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.clean_offset = 0
        """The log is compacted up to here (``cleaner-offset-checkpoint``)."""
        self._active = segments[-1]
        self._durability = self.files.durability
        self.topic_id = topic_id
        self.high_watermark = log_start_offset
        self.last_flush_ms = now_ms
        self.config = config

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}…{self.log_end_offset})"

    # What the log is

    @property
    def folder(self) -> str:
        """The path of the log's folder."""
        return self.files.folder

    @property
    def recovery_point(self) -> int:
        """The offset below which all records are on the disk."""
        return self._durability.recovery_point

    @property
    def kept_start_offset(self) -> int:
        """The log start that survives a crash: at most ``log_start_offset`` (``log_start``)."""
        return self._durability.start.kept

    @property
    def synced_start_offset(self) -> int:
        """The log start that the segments' names show durably."""
        return self._durability.start.synced

    @property
    def first_segment_offset(self) -> int:
        """The base offset of the oldest segment."""
        return self.segments[0].base_offset

    @property
    def active_segment(self) -> Segment:
        """The last segment, to which records are appended."""
        return self._active

    @property
    def size(self) -> int:
        """The bytes of all segments, without indexes."""
        return self.files.size

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
        """The offset below which every transaction has ended and is replicated."""
        unstable = self.producers.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if unstable is None else max(self.log_start_offset, min(unstable, high_watermark))

    def update_high_watermark(self, offset: int) -> int:
        """Sets the high watermark, within the log's bounds, and returns it."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        elif offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return offset

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Returns the greatest known epoch up to ``epoch``, and that epoch's end offset (OffsetForLeaderEpoch)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def begin_leader_epoch(self, epoch: int) -> None:
        """Begins the leader epoch in which this replica leads, at the log's end."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def set_topic_id(self, topic_id: bytes) -> None:
        """Writes the topic id of a log that has none yet. Raises InconsistentTopicId if it has another one."""
        if self.topic_id not in (topic_id, partition_metadata.ZERO_ID):
            raise errors.InconsistentTopicId(f"log {self.folder} belongs to another topic of this name")
        if self.topic_id != topic_id:
            self.files.write_topic_id(topic_id)
            self.topic_id = topic_id

    # Reading

    def read(self, offset: int, max_bytes: int, upper_bound: int = MAX_LONG, min_one: bool = True) -> LogSlice:
        """Reads whole batches of one segment, from the one that holds ``offset`` to offset ``upper_bound``.

        Returns at most ``max_bytes``, but with ``min_one`` at least one batch (KIP-74), and nothing at the end.
        Compaction may leave a batch without records at a segment's end; it is skipped if more follows. Otherwise
        librdkafka would take a response without records for a limit that is too small.

        Raises OffsetOutOfRange, CorruptMessage, KafkaStorageError.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise errors.OffsetOutOfRange(f"offset {offset} is not in {self}")
        bound = min(upper_bound, end)
        if offset >= bound:
            return LogSlice(b"", 0, offset, offset)
        self.log_dir.check_online()
        try:
            return self.segments.read(offset, max_bytes, bound, end, min_one)
        except OSError as error:
            raise self.log_dir.fail(error, f"reading {self.folder}") from error

    def read_bytes(self, offset: int, max_bytes: int, upper_bound: int = MAX_LONG) -> bytes:
        """Reads as ``read`` does, and returns the bytes."""
        found = self.read(offset, max_bytes, upper_bound)
        with self.files.failing("reading"):
            return found.read()

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions with records in ``[start, end)``."""
        with self.files.failing("reading the transaction index"):
            later = range(self.segments.find(start), len(self.segments))
            return overlapping((self.segments[number].txn_index for number in later), start, end)

    # Appending

    def append_as_leader(
        self,
        records: Records,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends one v2 batch, and assigns its offsets.

        ``transaction_version`` is that of the batch's transaction (see ``ProducerStates``).
        A client's batch that would block the loop raises TooHeavy: check it on a thread, and append the CheckedBatch.
        ``records`` is changed in place if it is writable. Raises errors.KafkaError:
        CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge,
        UnsupportedCompressionType, OutOfOrderSequenceNumber, DuplicateSequenceNumber,
        InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced, KafkaStorageError.
        """
        if self.log_dir.offline:
            raise self.log_dir.storage_error()
        from_client = origin is Origin.CLIENT
        rules = self._rules
        packed = None
        if isinstance(records, CheckedBatch):
            records, batch, packed = rules.accept(records, now_ms)
        else:
            batch = rules.check(records, now_ms, from_client=from_client, on_loop=from_client)
        marker = markers.decode(records) if batch.is_control else None
        if batch.producer_id >= 0:
            known = self._check_producer(batch, marker, transaction_version, from_client)
            if known is not None:
                return known
        if packed is None:
            packed = rules.repacked_on_loop(records, batch) if from_client else rules.recompressed(records, batch)
        first = self.log_end_offset
        last = first + batch.last_offset_delta
        timestamp = now_ms if self._log_append_time else batch.records_max_timestamp
        records = stamped(packed, batch, first, leader_epoch, timestamp, self._log_append_time)
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
        self.log_end_offset = last + 1  # only now, because a sync on another thread must find the rest written
        if last + 1 - self._durability.recovery_point >= self._flush_messages:
            self.flush()
        return AppendInfo(first, last, now_ms if self._log_append_time else -1, self.log_start_offset)

    def append_as_follower(self, records: Bytes, leader_epoch: int, now_ms: int) -> AppendInfo | None:
        """Appends batches as the leader wrote them. Returns None if there is no whole batch.

        Leaves out a batch that the end of ``records`` cuts, and batches of a newer epoch than ``leader_epoch``, in
        which they were fetched (``whole_batches``). An empty log begins where the first batch does, because the
        leader's log start may lie within it. Raises UnexpectedOffset, CorruptMessage, KafkaStorageError.
        """
        self.log_dir.check_online()
        is_empty = self.log_start_offset == self.log_end_offset
        batches = whole_batches(records, self.log_end_offset, leader_epoch, may_begin_below=is_empty)
        if not batches:
            return None
        first = batches[0].base_offset
        if first < self.log_end_offset:
            self.truncate_fully_and_start_at(first, now_ms, begins_there=False)
        view = memoryview(records)
        for run in runs(batches, self.log_end_offset, self._segment_bytes - self._active.size, self._segment_bytes):
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
        """Returns the active segment, or a new one if it is full.

        The new segment begins where the old one ends, even if the leader's next offset is larger (compaction), because
        recovery takes a gap between segments for a loss. If the next offset is too far away for an index, the segment
        begins at that offset. Then everything before it is synced first, so that recovery knows that nothing is lost.
        """
        segment = self._active
        try:
            is_due = self._rolling.is_due(segment, length, last, timestamp, now_ms)
        except (OSError, MalformedBatch):
            with self.files.failing("looking for the age of a segment"):
                raise
        if is_due:
            if last - self.log_end_offset <= MAX_RELATIVE_OFFSET:
                return self.roll(now_ms)
            self.flush()
            return self.roll(now_ms, first)
        return segment

    def _check_producer(
        self, batch: Batch, marker: Marker | None, transaction_version: int, from_client: bool
    ) -> AppendInfo | None:
        """Raises an error if the producer must not append the batch now. Returns the earlier result of a duplicate."""
        if batch.is_control:
            self.producers.check_marker(batch, marker, transaction_version)
            return None
        try:
            earlier = duplicate_of(self.producers, self.segments, batch, transaction_version, from_client)
        except OSError as error:
            raise self.log_dir.fail(error, f"looking back in {self.segments[0].path}") from error
        if earlier is None:
            return None
        time_ms = earlier.timestamp if self._log_append_time else -1
        return AppendInfo(earlier.first_offset, earlier.last_offset, time_ms, self.log_start_offset, duplicate=True)

    def _append_failed(self, segment: Segment, error: OSError) -> errors.KafkaStorageError:
        """Removes an incomplete batch after a failed write. If only an index failed, the batch stays unacknowledged."""
        segment.cut_failed_write()
        return self.log_dir.fail(error, f"appending to {segment.path}")

    def _remember_producer(
        self, batch: Batch, marker: Marker | None, first: int, last: int, timestamp: int, now_ms: int
    ) -> None:
        if not batch.is_control:
            self.producers.append(batch, first, last, timestamp, now_ms)
        elif marker is not None:
            index = self._active.txn_index
            with self.files.failing("writing the transaction index"):
                if append_marker(self.producers, index, batch, marker, first, timestamp, now_ms):
                    index.save_if_possible()
                    self._durability.names_synced = False  # the file may be new

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seals the active segment, and starts a new one at the log's end. Raises KafkaStorageError."""
        base_offset = self.log_end_offset if base_offset is None else base_offset
        with self.files.failing("rolling a segment"):
            sealed = self._active
            if sealed.size == 0 and sealed.base_offset == base_offset:
                return sealed
            sealed.seal()
            self.producers.take_snapshot(base_offset)
            log_dir = self.log_dir
            segment = Segment.create(log_dir.storage, log_dir.cache, self.folder, base_offset, now_ms)
            self._durability.names_synced = False  # not before the file is there: a sync may be running
            self.segments.add(segment)
            self.activate(segment)
        self.log_dir.on_roll(self)
        return self._active

    def activate(self, segment: Segment) -> None:
        """Makes ``segment``, the last one, the active segment."""
        self._active = segment
        self._rolling = Rolling(self._config, segment, str(self.topic_partition))

    # Shortening

    def truncate_to(self, offset: int, now_ms: int, producers: ProducerStates | None = None) -> bool:
        """Calls ``truncation.truncate_to``."""
        return truncation.truncate_to(self, offset, now_ms, producers)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, *, begins_there: bool = True) -> None:
        """Calls ``truncation.truncate_fully_and_start_at``."""
        truncation.truncate_fully_and_start_at(self, offset, now_ms, begins_there=begins_there)

    def raise_log_start_offset(self, offset: int) -> None:
        """Deletes the records below ``offset`` (DeleteRecords, or the leader's log start). Raises OffsetOutOfRange."""
        if offset > self.high_watermark:
            raise errors.OffsetOutOfRange(f"offset {offset} is beyond the high watermark of {self}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    # Keeping

    def flush(self) -> int:
        """Syncs the whole log; blocks. Returns the new recovery point. Raises KafkaStorageError."""
        return self.files.sync(lambda: self.log_end_offset)

    def keep_start(self) -> None:
        """Makes the log start durable; blocks, on any thread. Raises KafkaStorageError."""
        self._durability.start.keep(lambda: self.log_start_offset)

    def flush_sealed(self) -> int:
        """Syncs all segments but the active one; blocks. Raises KafkaStorageError."""
        return self.files.sync(lambda: self._active.base_offset)

    def relocate(self, log_dir: LogDir, folder: str) -> None:
        """Notes that the files are in another folder now."""
        self.log_dir = log_dir
        self.files.relocate(log_dir, folder)

    @property
    def is_synced(self) -> bool:
        """True if ``close`` has nothing to sync."""
        durability = self._durability
        is_there = durability.recovery_point == self.log_end_offset and durability.doubted is None
        return is_there and not durability.is_cut and not self.leader_epochs.dirty

    def close(self) -> None:
        """Calls ``LogFiles.close``."""
        self.files.close(self.log_start_offset, self.log_end_offset)
