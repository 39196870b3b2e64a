"""Opens a log as it was closed, without reading its files.

``closed_logs`` has the state of each log at a clean stop. If the folder looks the same, only names and sizes of files
are needed. The files' contents are read when they are used: indexes with the first lookup, producers with the first
batch of a producer. If the folder has changed, ``recovery`` opens the log.

Thread-safety: no state; nobody else knows the log yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.closed_logs import ClosedLog, digest
from pybroker.log.dirs.folder_states import Start, file_state
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.leader_epochs import EpochEntry, LeaderEpochs
from pybroker.log.files.offset_index import OffsetIndex
from pybroker.log.files.storage import Stamp
from pybroker.log.files.time_index import TimeIndex
from pybroker.log.log import Log
from pybroker.log.producers import producer_snapshot
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segment_files import SUFFIX
from pybroker.log.segment.segments import Segments
from pybroker.log.startup.recovery import DIGITS
from pybroker.topic_partition import TopicPartition

MAX_PRODUCERS_BYTES = 4096
"""The most bytes of producers in the file of closed logs. If they are more, a start reads them from their snapshot."""
_KEPT = (Start.OPENS, Start.READS)


def describe(log: Log) -> ClosedLog | None:
    """Describes a log that has just been closed. Returns None if the next start must read its files."""
    digest_of_files = _digest_of_unchanged(log) or _digest_of_files(log)
    producers = log.producers.packed()
    active = log.active_segment
    if digest_of_files is None or len(producers) > MAX_PRODUCERS_BYTES or not active.knows_max_timestamp:
        return None
    return ClosedLog(
        digest_of_files,
        log.topic_id,
        log.log_end_offset,
        [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries],
        producers,
        active.max_timestamp,
        active.max_timestamp_offset,
        log.files.durability.names_synced,
    )


def _digest_of_unchanged(log: Log) -> str | None:
    """Returns the digest that the start found, None if the log has changed since then.

    If the files have changed without this broker's knowledge, the next start finds a different digest.
    """
    if log.files.found is None:
        return None
    known, end, epoch = log.files.found
    is_unchanged = end == log.log_end_offset and epoch == log.leader_epochs.latest
    return known if is_unchanged and not log.files.durability.truncations else None


def _digest_of_files(log: Log) -> str | None:
    found = log.log_dir.storage.stamps(log.folder)
    states = {name: file_state(name) for name in found}
    if any(state is None or state.start not in _KEPT for state in states.values()):
        return None
    segments = list(log.segments)
    made = [segment for segment in segments if segment.files.is_made]
    if [(each.base_offset, each.size) for each in made] != _found_segments(found):
        return None
    if any(f"{each.base_offset:020d}{suffix}" not in found for each in made for suffix in _INDEXES):
        return None
    return digest(found)


def reopen(
    log_dir: LogDir,
    topic_partition: TopicPartition,
    folder: str,
    config: LogConfig,
    checkpointed: Checkpointed,
    closed: ClosedLog,
    found: Mapping[str, Stamp],
    now_ms: int,
) -> Log | None:
    """Reopens the log in ``folder``, whose files are ``found``, as it was ``closed``. Returns None if they have
    changed.
    """
    if digest(found) != closed.files:
        return None
    segments = _segments(log_dir, folder, config, found, now_ms)
    active, end = segments[-1], closed.end_offset
    start = max(checkpointed.log_start_offset, segments[0].base_offset)
    if not start <= end:
        return None
    active.resume(closed.max_timestamp, closed.max_timestamp_offset)
    epochs = LeaderEpochs([EpochEntry(*entry) for entry in closed.epochs])
    epochs.truncate_from_start(start)
    producers = ProducerStates(log_dir.storage, folder, _offsets_of(found, producer_snapshot.SUFFIX))
    producers.resume(closed.producers, end)
    log = Log(
        log_dir,
        folder,
        topic_partition,
        closed.topic_id,
        config,
        Segments(segments),
        producers,
        epochs,
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=min(checkpointed.recovery_point, end),
        now_ms=now_ms,
    )
    log.update_high_watermark(checkpointed.high_watermark)
    log.clean_offset = min(checkpointed.clean_offset, end)
    log.files.durability.names_synced = closed.names_synced
    log.files.found = closed.files, end, epochs.latest
    return log


def _segments(
    log_dir: LogDir, folder: str, config: LogConfig, found: Mapping[str, Stamp], now_ms: int
) -> list[Segment]:
    """Returns the segments whose files were found, or one that is not written yet."""
    storage, cache = log_dir.storage, log_dir.cache
    segments = [Segment(storage, cache, folder, base, size, now_ms) for base, size in _found_segments(found)]
    for segment in segments:
        segment.index_interval_bytes = config.index_interval_bytes
    return segments or [Segment.unwritten(storage, cache, folder, 0, now_ms)]


_INDEXES = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX)


def _found_segments(found: Mapping[str, Stamp]) -> list[tuple[int, int]]:
    """Returns the base offset and the size of each segment, in the order of their offsets."""
    return [(base, found[f"{base:020d}{SUFFIX}"][0]) for base in _offsets_of(found, SUFFIX)]


def _offsets_of(found: Mapping[str, Stamp], suffix: str) -> list[int]:
    return sorted(int(name[:DIGITS]) for name in found if name.endswith(suffix))
