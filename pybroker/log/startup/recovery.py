"""Opens a log that is on the disk, and mends it after an unclean stop.

After a clean stop ``reopening`` does it, unless something has changed since. Then nothing is read but names, sizes, the
newest producer snapshot and the last few batch headers. So it is after an unclean stop, if the log ends at its recovery
point. Else everything beyond that is suspect:

1. Leftovers go: ``.deleted``, ``.cleaned``, ``.tmp``, indexes without a log. A ``.swap`` is a
   compaction that had finished writing: it replaces the segments it was made from.
2. From the segment that holds the recovery point on, indexes are made again and CRCs checked.
   Bytes below the recovery point were synced: only their framing is checked here, a CRC when they
   are read.
3. The log ends at the first bad batch, or at the first offset that is missing between two segments. Offsets that
   compaction may have removed do not count, nor does a jump of more than 2^31 offsets, for which a roll has synced all
   before it. A bad batch at the end of the log is a *torn tail*, an append cut by the crash, and is cut off. If more
   follows, in the same or later segments, the log has a *hole*. Then everything from there on is set aside in files
   named ``….log.quarantined-<position>``. It is never deleted silently, and never served with the hole inside.
4. Checkpoints are believed only within the log's bounds: a recovery point beyond the end is clamped, an end below the
   log start resets the log to its start. Leader epochs and producers are truncated to the end, or replayed up to it.

A crash during all this is again an unclean stop (see ``log_dir``): each step can be repeated.

Thread-safety: logs are opened in parallel by pool threads, each by one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

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
    """Opens the log in ``folder``, or makes a new one in it. Raises KafkaStorageError.

    ``sizes``: of the files in the folder, by name, where they are known.
    """
    with log_dir.failing(f"opening {folder}"):
        sizes = log_dir.storage.files(folder) if sizes is None else sizes
        return _Loader(log_dir, topic_partition, folder, config, checkpointed, clean, now_ms, sizes).load()


class _Loader:
    """The steps of opening one log, and what they hand on to each other."""

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
        """Nothing of the log can be lost or torn."""
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
        """Returns names and sizes. Files that are not the log's are ignored, and logged."""
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
        """Kafka renames the parts of a segment that it splits from the last to the first: those
        beyond a part that is still ``.cleaned`` do not count.
        """
        cleaned = [int(name[:DIGITS]) for name in self.files if name.endswith(SUFFIX + CLEANED_SUFFIX)]
        for name in [name for name in self.files if cleaned and name.endswith(SWAP_SUFFIX)]:
            if int(name[:DIGITS]) >= min(cleaned):
                self._remove(name)

    def _finish_swaps(self) -> None:
        """A cleaned segment that was complete replaces the segments between its first and last
        offset, the newest first: see ``cleaned_segment``.
        """
        for name in sorted(name for name in self.files if name.endswith(SUFFIX + SWAP_SUFFIX)):
            base, last = int(name[:DIGITS]), self._last_offset_in(name)
            logger.info("%s/%s: the compaction up to offset %d is completed", self.folder, name, last)
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
        """The first segment of a log. One that begins at 0 gets no file before it has records; another one's start is
        in the name."""
        make = Segment.create if base_offset else Segment.unwritten
        return make(self.storage, self.log_dir.cache, self.folder, base_offset, self.now_ms)

    def _restart_at(self, segments: Segments, offset: int) -> Segments:
        """The log ends before its start (the checkpoint is newer than what survived): nothing
        of it may be read.
        """
        logger.warning("%s ends before its start offset %d and starts again there", self.folder, offset)
        for segment in segments:
            self.log_dir.unlink(segment.files.delete())
        return Segments([self._new_segment(offset)])

    def _mend_index_files(self, segments: Segments, end: int) -> None:
        """Makes missing and misshapen index files of the first ``end`` segments again.

        The content of the others is checked when it is used; but a ``.txnindex`` that is missing alone cannot be told
        from one that never was. The log is read once for segments in a row, with or without snapshots of producers.
        """
        producers: ProducerStates | None = None
        reached = 0
        for number, segment in enumerate(segments.snapshot()[:end]):
            stem = f"{segment.base_offset:020d}"
            if stem + SUFFIX not in self.files:
                continue
            sizes = [self.files.get(stem + suffix) for suffix in (".index", ".timeindex")]
            if None in sizes or any(self.files.get(stem + suffix, 0) % size for suffix, size in ENTRY_SIZES.items()):
                logger.warning("index files of %s are made again", segment.path)
                if producers is None or reached != number:
                    producers = self._producers_before(segments, number)
                self._rebuild(segment, producers)
                reached = number + 1

    def _rebuild(self, segment: Segment, producers: ProducerStates) -> None:
        """``producers``: as they were where the segment begins; afterwards as where it ends."""
        try:
            segment.rebuild_indexes()
            self._rebuild_aborted(segment, producers)
        except MalformedBatch as error:
            logger.error("%s: %s", segment.path, error)
            segment.seal()

    def _producers_before(self, segments: Segments, number: int) -> ProducerStates:
        """The producers as they were where a segment begins."""
        base = segments[number].base_offset
        known = [offset for offset in self._offsets_of(producer_snapshot.SUFFIX) if offset <= base]
        producers = ProducerStates(self.storage, self.folder, known)
        if number:
            self._replay_producers(producers, Segments(segments.snapshot()[:number]), segments[0].base_offset, base)
        else:
            producers.load(base, base)
        return producers

    def _rebuild_aborted(self, segment: Segment, producers: ProducerStates) -> None:
        """Makes the transaction index again; raises MalformedBatch."""
        segment.txn_index.delete()
        markers, seen_ms = Markers(segment), segment.modified_ms
        try:
            for position, batch in segment.batches():
                replay_batch(producers, markers, position, batch, seen_ms, segment.txn_index)
        finally:
            segment.txn_index.save(sync=True)

    # Recovery

    def _is_synced(self, active: Segment, recovery_point: int) -> bool:
        """True where the log ends at its recovery point: then a sync had all of it, and nothing was appended since.

        A transaction index is the exception: it is no longer known to be synced when the log has been truncated.
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
        """Checks everything from segment ``first`` on, and truncates the log at the first bad batch."""
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
                    raise MalformedBatch(position, f"offset {batch.base_offset}, expected {expected} or more")
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
        """True where records are lost between ``end`` and the segment ``following``."""
        if end == following.base_offset or self._is_compacted_below(following.base_offset):
            return False
        return end < recovery_point or not _is_jump(end, following)

    def _is_compacted_below(self, offset: int) -> bool:
        """Whether records below ``offset`` may be missing because compaction removed them. The topic may no longer be
        compacted, and at a start this is not known yet.
        """
        return offset <= self.checkpointed.clean_offset

    def _cut(self, segments: Segments, number: int, error: MalformedBatch) -> None:
        """Ends the log at the bad batch of segment ``number``."""
        segment = segments[number]
        later = segments.remove_from(segment.base_offset + 1)
        rest = segment.size - error.position
        if rest and (any(other.size for other in later) or self._is_hole(segment, error)):
            self._quarantine(segment, error)
        else:
            logger.warning("%s: torn tail of %d bytes is truncated: %s", segment.path, rest, error)
        segment.file.truncate(error.position)
        segment.size = error.position
        segment.distrust()
        for other in later:
            self._put_aside(other)

    def _is_hole(self, segment: Segment, error: MalformedBatch) -> bool:
        """False for a torn tail: one batch that is cut or damaged, or space that was never
        written.
        """
        rest = segment.size - error.position
        if error.size or error.is_cut:
            return rest > max(error.size, self.config.max_message_bytes if error.is_cut else 0)
        return any(
            segment.read_bytes(start, 1 << 20).strip(b"\0") for start in range(error.position, segment.size, 1 << 20)
        )

    def _quarantine(self, segment: Segment, error: MalformedBatch) -> None:
        """Keeps a copy of everything from the bad batch to the segment's end."""
        path = f"{segment.path}.quarantined-{error.position}"
        logger.error("%s: %s; what follows is kept in %s", segment.path, error, path)
        copy = self.storage.open(path, create=True)
        for start in range(error.position, segment.size, 1 << 20):
            copy.write(
                segment.read_bytes(start, min(1 << 20, segment.size - start)),
                start - error.position,
            )
        copy.sync()
        self.storage.sync_folder(self.folder)

    def _put_aside(self, segment: Segment) -> None:
        """A segment behind a hole: its log is kept under another name."""
        if segment.size:
            logger.error("%s lies behind a hole and is kept as %s.quarantined-0", segment.path, segment.path)
            self.storage.rename(segment.path, f"{segment.path}.quarantined-0")
        self.log_dir.unlink(segment.files.delete())

    # Derived state

    def _end_offset(self, segments: Segments) -> int:
        """Behind the last batch.

        Where the active segment's end is damaged it is truncated there, even after a clean stop.
        """
        try:
            return segments[-1].read_end() + 1
        except MalformedBatch as error:
            self._cut(segments, len(segments) - 1, error)
            self._rebuild(segments[-1], self._producers_before(segments, len(segments) - 1))
            return segments[-1].read_end() + 1

    def _epochs(self) -> tuple[LeaderEpochs, bool]:
        """The epochs of the file, and whether they are complete up to the recovery point."""
        if leader_epochs.FILE_NAME not in self.files:
            return LeaderEpochs(), not any(name.endswith(SUFFIX) and size for name, size in self.files.items())
        try:
            data = self.storage.read(f"{self.folder}/{leader_epochs.FILE_NAME}")
            return LeaderEpochs(leader_epochs.decode(data)), True
        except ValueError as error:
            logger.warning("%s/%s is made again: %s", self.folder, leader_epochs.FILE_NAME, error)
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
            logger.error("producers of %s are known up to a damaged batch only: %s", self.folder, error)


def _is_jump(end: int, following: Segment) -> bool:
    """True where the segment before ``following`` ends at ``end`` and could not have taken the batch with which
    ``following`` begins. The log was synced to its end before that one was made (``Log``): nothing is missing.
    """
    try:
        first = next(following.verified_batches(0, 0), None)
    except MalformedBatch:
        return False
    if first is None or first.batch.base_offset != following.base_offset:
        return False
    return first.batch.last_offset - end > MAX_RELATIVE_OFFSET
