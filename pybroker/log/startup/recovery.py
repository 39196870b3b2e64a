"""Opens a log that is on the disk, and recovers it after an unclean stop.

After a clean stop, ``reopening`` opens a log, unless its files have changed. Then this module reads only names, sizes,
the newest producer snapshot and the last few batch headers. This is also enough after an unclean stop, if the log ends
at its recovery point. Otherwise it checks everything beyond the recovery point:

1. Leftovers are removed: ``.deleted``, ``.cleaned``, ``.tmp``, indexes without a log. A ``.swap`` is a
   segment that a compaction has completely written: it replaces the segments from which it was made.
2. From the segment with the recovery point on, indexes are rebuilt and CRCs checked.
   Bytes below the recovery point were synced: only their framing is checked here, and their CRCs when they
   are read.
3. The log ends at the first damaged batch, or at the first offset that is missing between two segments. Offsets that
   compaction may have removed do not count, nor does a jump of more than 2^31 offsets, before which a roll has synced
   everything. A damaged batch at the end of the log is a *torn tail*, an append that the crash has interrupted, and
   is truncated. If more follows, in the same or later segments, the log has a *hole*. Then everything from there on is
   kept in files named ``….log.quarantined-<position>``. It is never deleted silently, nor served beyond the hole.
4. Checkpoints count only within the log's bounds: a recovery point beyond the end is lowered to it, and an end below
   the log start resets the log to its start. Leader epochs and producers are truncated to the end or replayed to it.

A crash during all this is again an unclean stop (see ``log_dir``): each step can be repeated.

Thread-safety: logs are opened in parallel by pool threads, each by one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from cy.counted import counted
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.folder_states import Start, file_state
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import leader_epochs, partition_metadata
from pybroker.log.files.batches import MalformedBatch, walk
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.leader_epochs import LeaderEpochs
from pybroker.log.files.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.files.txn_index import TransactionIndex
from pybroker.log.log import Log
from pybroker.log.producers import producer_snapshot
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.replay import Markers, reach_of, replay_batch, replay_producers
from pybroker.log.segment.cleaned_segment import CLEANED_SUFFIX, INDEX_SUFFIXES, SWAP_SUFFIX, finish_swap
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segment_files import SUFFIX
from pybroker.log.segment.segments import Segments
from pybroker.topic_partition import TopicPartition

ENTRY_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
DIGITS = 20

logger = logging.getLogger(__name__)


def load(
    log_dir: LogDir,
    topic_partition: TopicPartition,
    folder: str,
    config: LogConfig,
    checkpointed: Checkpointed,
    *,
    clean: bool,
    now_ms: int,
    sizes: Mapping[str, int] | None = None,
) -> Log:
    """Opens the log in ``folder``, or creates a new one in it. Raises KafkaStorageError.

    ``sizes`` are those of the files in the folder, by name, if they are known.
    """
    with log_dir.failing(f"opening {folder}"):
        sizes = log_dir.storage.files(folder) if sizes is None else sizes
        return _Loader(log_dir, topic_partition, folder, config, checkpointed, clean, now_ms, sizes).load()


class _Loader:
    """The steps of opening one log, and their shared state."""

    def __init__(
        self,
        log_dir: LogDir,
        topic_partition: TopicPartition,
        folder: str,
        config: LogConfig,
        checkpointed: Checkpointed,
        clean: bool,
        now_ms: int,
        sizes: Mapping[str, int],
    ) -> None:
        self.log_dir = log_dir
        self.storage = log_dir.storage
        self.topic_partition = topic_partition
        self.folder = folder
        self.config = config
        self.checkpointed = checkpointed
        self.clean = clean
        self.is_whole = clean
        """True if nothing of the log can be lost or torn."""
        self.now_ms = now_ms
        self.files = self._known_files(sizes)

    def load(self) -> Log:
        self._remove_leftovers()
        segments = self._segments()
        epochs, epochs_known = self._epochs()
        producers = ProducerStates(self.storage, self.folder, self._offsets_of(producer_snapshot.SUFFIX))
        start = max(self.checkpointed.log_start_offset, segments[0].base_offset)
        recovery_point = self.checkpointed.recovery_point
        self.is_whole = self.clean or self._is_synced(segments[-1], recovery_point)
        checked = len(segments) if self.is_whole else segments.find(recovery_point)
        self._mend_index_files(segments, checked)
        if not self.is_whole:
            self._recover(segments, checked, producers, epochs, recovery_point)
        if not epochs_known:
            self._replay_epochs(segments, epochs)
        end = recovery_point if self.is_whole and not self.clean else self._end_offset(segments)
        if end < start:
            segments = self._restart_at(segments, start)
            end = start
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
        if self.is_whole or producers.end_offset > end:
            self._replay_producers(producers, segments, start, end)
        producers.remove_snapshots(lambda offset: offset > end)
        producers.end_offset = end
        return self._log(segments, producers, epochs, start, end, min(recovery_point, end))

    def _log(
        self,
        segments: Segments,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        start: int,
        end: int,
        recovery_point: int,
    ) -> Log:
        log = Log(
            self.log_dir,
            self.folder,
            self.topic_partition,
            partition_metadata.read(self.storage, self.folder),
            self.config,
            segments,
            producers,
            epochs,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=recovery_point,
            now_ms=self.now_ms,
        )
        log.update_high_watermark(self.checkpointed.high_watermark)
        log.clean_offset = min(self.checkpointed.clean_offset, end)
        if not self.clean:
            log.files.doubt_topic_id(log.topic_id)
        log.files.release()
        return log

    # Leftovers

    def _known_files(self, found: Mapping[str, int]) -> dict[str, int]:
        """Returns names and sizes of the log's files. Logs the names of files that do not belong to the log."""
        known = {name: size for name, size in found.items() if file_state(name) is not None}
        if len(known) < len(found):
            foreign = ", ".join(sorted(found.keys() - known.keys()))
            logger.warning("%s has files that do not belong to a log and are ignored: %s", self.folder, foreign)
        return known

    def _remove_leftovers(self) -> None:
        self._remove_unfinished_swaps()
        for name in list(self.files):
            state = file_state(name)
            if state is not None and state.start is Start.REMOVES:
                self._remove(name)
        self._finish_swaps()
        for name in list(self.files):
            stem, suffix = os.path.splitext(name)
            if suffix in INDEX_SUFFIXES and stem + SUFFIX not in self.files:
                self._remove(name)

    def _remove_unfinished_swaps(self) -> None:
        """Removes ``.swap`` files beyond a ``.cleaned`` one: Kafka renames a split segment's parts from last to first.
        """
        cleaned = [int(name[:DIGITS]) for name in self.files if name.endswith(SUFFIX + CLEANED_SUFFIX)]
        for name in [name for name in self.files if cleaned and name.endswith(SWAP_SUFFIX)]:
            if int(name[:DIGITS]) >= min(cleaned):
                self._remove(name)

    def _finish_swaps(self) -> None:
        """Completes interrupted swaps of cleaned segments: see ``cleaned_segment``."""
        for name in sorted(name for name in self.files if name.endswith(SUFFIX + SWAP_SUFFIX)):
            base, last = int(name[:DIGITS]), self._last_offset_in(name)
            logger.info("%s/%s completes a compaction up to offset %d", self.folder, name, last)
            for offset in reversed(self._offsets_of(SUFFIX)):
                if base < offset <= last:
                    for suffix in (SUFFIX, *INDEX_SUFFIXES):
                        self._remove(f"{offset:020d}{suffix}")
            finish_swap(self.storage, f"{self.folder}/{base:020d}")
            self.storage.sync_folder(self.folder)
            self.files = self._known_files(self.storage.files(self.folder))
        for name in [name for name in self.files if name.endswith(SWAP_SUFFIX)]:
            self._remove(name)

    def _last_offset_in(self, name: str) -> int:
        file = self.storage.open(f"{self.folder}/{name}")
        last = int(name[:DIGITS])
        try:
            for located in walk(file, 0, self.files[name]):
                last = located.batch.last_offset
        except MalformedBatch as error:
            logger.error("%s/%s: %s", self.folder, name, error)
        return last

    def _remove(self, name: str) -> None:
        if self.files.pop(name, None) is not None:
            self.storage.unlink(f"{self.folder}/{name}")

    def _rename(self, name: str, new_name: str) -> None:
        self.storage.rename(f"{self.folder}/{name}", f"{self.folder}/{new_name}")
        self.files[new_name] = self.files.pop(name)

    def _offsets_of(self, suffix: str) -> list[int]:
        return sorted(
            int(name[:DIGITS])
            for name in self.files
            if name.endswith(suffix) and len(name) == DIGITS + len(suffix) and name[:DIGITS].isdecimal()
        )

    # Segments

    def _segments(self) -> Segments:
        found = [self._found_segment(base) for base in self._offsets_of(SUFFIX)]
        return Segments(found or [self._new_segment(self.checkpointed.log_start_offset)])

    def _found_segment(self, base_offset: int) -> Segment:
        size = self.files[f"{base_offset:020d}{SUFFIX}"]
        cache = self.log_dir.cache
        segment = Segment(self.storage, cache, self.folder, base_offset, size, self.now_ms)
        segment.index_interval_bytes = self.config.index_interval_bytes
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        """Returns the first segment of a log. If it begins at 0, it has no file before it has records."""
        make = Segment.create if base_offset else Segment.unwritten
        return make(self.storage, self.log_dir.cache, self.folder, base_offset, self.now_ms)

    def _restart_at(self, segments: Segments, offset: int) -> Segments:
        """Empties a log that ends before its log start: the checkpointed start is newer than the surviving records.
        """
        logger.warning("%s ends before its log start offset %d, and is emptied and starts there", self.folder, offset)
        for segment in segments:
            self.log_dir.unlink(segment.files.delete())
        return Segments([self._new_segment(offset)])

    def _mend_index_files(self, segments: Segments, end: int) -> None:
        """Rebuilds missing and malformed index files of the first ``end`` segments.

        The content of the other index files is checked when it is used. A missing ``.txnindex`` alone cannot be
        detected, because most segments have none. If neighbouring segments are rebuilt, each is read only once for the
        producers.
        """
        producers: ProducerStates | None = None
        reached = 0
        for number, segment in enumerate(segments.snapshot()[:end]):
            stem = f"{segment.base_offset:020d}"
            if stem + SUFFIX not in self.files:
                continue
            sizes = [self.files.get(stem + suffix) for suffix in (".index", ".timeindex")]
            if None in sizes or any(self.files.get(stem + suffix, 0) % size for suffix, size in ENTRY_SIZES.items()):
                logger.warning("the index files of %s are missing or malformed, and are rebuilt", segment.path)
                if producers is None or reached != number:
                    producers = self._producers_before(segments, number)
                self._rebuild(segment, producers)
                reached = number + 1

    def _rebuild(self, segment: Segment, producers: ProducerStates) -> None:
        """Rebuilds a segment's indexes, and advances ``producers`` from the segment's start to its end."""
        try:
            segment.rebuild_indexes()
            self._rebuild_aborted(segment, producers)
        except MalformedBatch as error:
            logger.error("%s: %s", segment.path, error)
            segment.seal()

    def _producers_before(self, segments: Segments, number: int) -> ProducerStates:
        """Returns the producers as they were at the start of a segment."""
        base = segments[number].base_offset
        known = [offset for offset in self._offsets_of(producer_snapshot.SUFFIX) if offset <= base]
        producers = ProducerStates(self.storage, self.folder, known)
        if number:
            self._replay_producers(producers, Segments(segments.snapshot()[:number]), segments[0].base_offset, base)
        else:
            producers.load(base, base)
        return producers

    def _rebuild_aborted(self, segment: Segment, producers: ProducerStates) -> None:
        """Rebuilds the transaction index. Raises MalformedBatch."""
        segment.txn_index.delete()
        markers, seen_ms = Markers(segment), segment.modified_ms
        try:
            for position, batch in segment.batches():
                replay_batch(producers, markers, position, batch, seen_ms, segment.txn_index)
        finally:
            segment.txn_index.save(sync=True)

    # Recovery

    def _is_synced(self, active: Segment, recovery_point: int) -> bool:
        """Returns True if the log ends at its recovery point: then all of it was synced.

        Returns False for a log with a transaction index, because a truncation may have left that index unsynced.
        """
        if f"{active.base_offset:020d}{TransactionIndex.SUFFIX}" in self.files:
            return False
        try:
            return active.read_end() + 1 == recovery_point
        except MalformedBatch:
            return False

    def _recover(
        self,
        segments: Segments,
        first: int,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        recovery_point: int,
    ) -> None:
        """Checks everything from segment ``first`` on, and truncates the log at the first damaged batch."""
        start = segments[first].base_offset
        self._replay_producers(producers, Segments(segments.snapshot()[:first]), segments[0].base_offset, start)
        for number in range(first, len(segments)):
            segment = segments[number]
            if not segment.files.is_made:
                continue
            following = segments[number + 1] if number + 1 < len(segments) else None
            try:
                self._recover_segment(segment, producers, epochs, recovery_point, following)
                if following is not None:
                    producers.take_snapshot(following.base_offset)
            except MalformedBatch as error:
                self._cut(segments, number, error)
                return

    def _recover_segment(
        self,
        segment: Segment,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        recovery_point: int,
        following: Segment | None,
    ) -> None:
        segment.start_indexes()
        segment.txn_index.delete()
        expected = segment.base_offset
        next_base = None if following is None else following.base_offset
        markers, seen_ms = Markers(segment), segment.modified_ms
        try:
            for position, batch in segment.verified_batches(0, recovery_point):
                if batch.base_offset < expected or (next_base is not None and batch.last_offset >= next_base):
                    raise MalformedBatch(position, f"offset {batch.base_offset} is not in the expected order")
                segment.check_reach(position, batch)
                expected = batch.next_offset
                segment.note(position, batch)
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
                replay_batch(producers, markers, position, batch, seen_ms, segment.txn_index)
        finally:
            segment.seal()
            segment.txn_index.save()
        if following is not None and self._is_hole_before(following, expected, recovery_point):
            raise MalformedBatch(segment.size, f"offsets {expected} to {following.base_offset - 1} are missing")

    def _is_hole_before(self, following: Segment, end: int, recovery_point: int) -> bool:
        """Returns True if records between ``end`` and the segment ``following`` are lost."""
        if end == following.base_offset or self._is_compacted_below(following.base_offset):
            return False
        return end < recovery_point or not _is_jump(end, following)

    def _is_compacted_below(self, offset: int) -> bool:
        """Returns True if compaction may have removed records below ``offset``.

        The topic's current cleanup policy does not matter, and is not known at a start.
        """
        return offset <= self.checkpointed.clean_offset

    def _cut(self, segments: Segments, number: int, error: MalformedBatch) -> None:
        """Ends the log before the damaged batch of segment ``number``."""
        segment = segments[number]
        later = segments.remove_from(segment.base_offset + 1)
        rest = segment.size - error.position
        if rest and (any(other.size for other in later) or self._is_hole(segment, error)):
            self._quarantine(segment, error)
        else:
            logger.warning("%s: a torn tail of %s is truncated: %s", segment.path, counted(rest, "byte"), error)
        segment.file.truncate(error.position)
        segment.size = error.position
        segment.distrust()
        for other in later:
            self._put_aside(other)

    def _is_hole(self, segment: Segment, error: MalformedBatch) -> bool:
        """Returns False for a torn tail: one cut or damaged batch, or space that was never written."""
        rest = segment.size - error.position
        if error.size or error.is_cut:
            return rest > max(error.size, self.config.max_message_bytes if error.is_cut else 0)
        return any(
            segment.read_bytes(start, 1 << 20).strip(b"\0") for start in range(error.position, segment.size, 1 << 20)
        )

    def _quarantine(self, segment: Segment, error: MalformedBatch) -> None:
        """Copies everything from the damaged batch to the segment's end into a file beside it."""
        path = f"{segment.path}.quarantined-{error.position}"
        logger.error("%s is damaged: %s; everything from there on is kept in %s", segment.path, error, path)
        copy = self.storage.open(path, create=True)
        for start in range(error.position, segment.size, 1 << 20):
            copy.write(
                segment.read_bytes(start, min(1 << 20, segment.size - start)),
                start - error.position,
            )
        copy.sync()
        self.storage.sync_folder(self.folder)

    def _put_aside(self, segment: Segment) -> None:
        """Removes a segment that follows a hole from the log, and keeps its ``.log`` under another name."""
        if segment.size:
            logger.error("%s follows a damaged batch, and is kept as %s.quarantined-0", segment.path, segment.path)
            self.storage.rename(segment.path, f"{segment.path}.quarantined-0")
        self.log_dir.unlink(segment.files.delete())

    # Derived state

    def _end_offset(self, segments: Segments) -> int:
        """Truncates a damaged end of the active segment, and returns the offset behind the last batch."""
        try:
            return segments[-1].read_end() + 1
        except MalformedBatch as error:
            self._cut(segments, len(segments) - 1, error)
            self._rebuild(segments[-1], self._producers_before(segments, len(segments) - 1))
            return segments[-1].read_end() + 1

    def _epochs(self) -> tuple[LeaderEpochs, bool]:
        """Returns the epochs of the file, and True if they are complete up to the recovery point."""
        if leader_epochs.FILE_NAME not in self.files:
            return LeaderEpochs(), not any(name.endswith(SUFFIX) and size for name, size in self.files.items())
        try:
            data = self.storage.read(f"{self.folder}/{leader_epochs.FILE_NAME}")
            return LeaderEpochs(leader_epochs.decode(data)), True
        except ValueError as error:
            logger.warning("%s/%s is malformed, and is rebuilt: %s", self.folder, leader_epochs.FILE_NAME, error)
            return LeaderEpochs(), False

    def _replay_epochs(self, segments: Segments, epochs: LeaderEpochs) -> None:
        epochs.clear()
        try:
            for segment in segments:
                for _, batch in segment.batches():
                    epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        except MalformedBatch as error:
            logger.error("%s: %s", self.folder, error)

    def _replay_producers(self, producers: ProducerStates, segments: Segments, start: int, end: int) -> None:
        try:
            replay_producers(producers, segments, start, end, None if self.is_whole else reach_of(segments, end))
        except MalformedBatch as error:
            logger.error("the producers of %s are only known up to a damaged batch: %s", self.folder, error)


def _is_jump(end: int, following: Segment) -> bool:
    """Returns True if a segment that ends at ``end`` could not have taken the first batch of ``following``.

    Then the log was synced to its end before ``following`` was created (``Log``), so nothing is missing.
    """
    try:
        first = next(following.verified_batches(0, 0), None)
    except MalformedBatch:
        return False
    if first is None or first.batch.base_offset != following.base_offset:
        return False
    return first.batch.last_offset - end > MAX_RELATIVE_OFFSET
