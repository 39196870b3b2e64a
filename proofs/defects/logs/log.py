"""Fixed defects of ``pybroker/log``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cy.batch import Batch, recompress
from cy.batch.aborted_transactions import AbortedTransactions
from cy.compaction.batch_filter import BatchFilter
from cy.compaction.key_scanner import KeyScanner
from proofs.defects import Patch, defect
from proofs.defects.suites import LOGS, in_histories
from pybroker.config.log_config import MAX_LONG, LogConfig
from pybroker.log import deep_cut, expiry, shared_configs
from pybroker.log.compaction import cleaner, compaction
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.durability import Durability
from pybroker.log.files import partition_metadata
from pybroker.log.files.storage import Bytes
from pybroker.log.log import Log
from pybroker.log.log_files import LogFiles
from pybroker.log.manager import LogManager
from pybroker.log.producers import idle_producers
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.retention import Candidate, expired_count
from pybroker.log.segment.segment import Segment
from pybroker.log.startup import recovery, reopening
from pybroker.log.validation import Rules
from pybroker.replication.placement import Placement

LOG = "pybroker/log"

ENTRY_BYTES = 34
LAST_OFFSET = slice(18, 26)


@defect(f"{LOG}/compaction/tests/test_compaction_rounds.py")
def compaction_takes_ended_transactions_for_open() -> list[Patch]:
    """An aborted transaction never ends if its marker lies before the first offset that a round reads."""
    scan_all = compaction.Compaction._scan

    def scan(self: Any, scanner: KeyScanner) -> None:
        endless = bytearray(self._aborted)
        for at in range(0, len(endless), ENTRY_BYTES):
            endless[at + LAST_OFFSET.start : at + LAST_OFFSET.stop] = MAX_LONG.to_bytes(8, "big")
        wrong = KeyScanner(self._map, AbortedTransactions(bytes(endless)), self._todo.first_dirty)
        scan_all(self, wrong)
        scanner.skip_to(wrong.latest + 1)

    return [(compaction.Compaction, "_scan", scan)]


@defect(f"{LOG}/compaction/tests/test_compaction.py::test_tombstones_stay_if_delete_retention_ms_is_endless")
def a_delete_horizon_overflows() -> list[Patch]:
    """The sum of the time and delete.retention.ms exceeds the largest int64."""

    def make(*parts: Any, now_ms: int, delete_retention_ms: int, **options: Any) -> BatchFilter:
        if now_ms + delete_retention_ms > MAX_LONG:
            delete_retention_ms = -now_ms - 1
        return BatchFilter(*parts, now_ms=now_ms, delete_retention_ms=delete_retention_ms, **options)

    return [(compaction, "BatchFilter", make)]


@defect(f"{LOG}/startup/tests/test_reopening.py::test_a_file_of_closed_logs_from_another_broker_is_ignored[8]")
def a_start_believes_what_an_older_stop_has_left() -> list[Patch]:
    """Another broker has used the log dir in the meantime."""
    return [(LogDir, "_closed_in", lambda self, marker: 7)]


@defect(f"{LOG}/startup/tests/test_reopening.py::test_files_changed_since_the_stop_are_noticed[cut_log]")
def a_start_does_not_look_at_the_files_of_a_log() -> list[Patch]:
    """The start trusts the state of the last stop, although somebody has restored or repaired files since."""
    return [(reopening, "digest", lambda files: "")]


@defect(f"{LOG}/tests/test_interleavings.py")
def a_sync_takes_the_end_from_before_its_wait() -> list[Patch]:
    """The log may be truncated after the sync reads its end and before it reads the count of truncations."""
    sync = LogFiles.sync

    def sync_to_old_end(self: LogFiles, find_end: Callable[[], int]) -> int:
        end = find_end()
        return sync(self, lambda: end)

    return [(LogFiles, "sync", sync_to_old_end)]


@defect(f"{LOG}/tests/test_interleavings.py")
def a_log_that_starts_over_has_no_segment_for_a_moment() -> list[Patch]:
    """The log removes its old segments from the list before it adds the new one."""
    remove = LogFiles.remove

    def remove_before(self: LogFiles, removed: list[Segment]) -> None:
        if len(removed) == len(self.segments):
            self.segments.remove_from(0)
        remove(self, removed)

    return [(LogFiles, "remove", remove_before)]


@defect(f"{LOG}/compaction/tests/test_compaction.py::test_an_uncleanable_log_is_tried_again_after_a_setting_changes")
def a_log_that_was_refused_once_is_refused_for_good() -> list[Patch]:
    """The cleaner never retries a log that could not be compacted, until the broker restarts."""

    class Refused(cleaner.Refused):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, tuple) and self.log is other[0]

        def __ne__(self, other: object) -> bool:
            return not self == other

    return [(cleaner, "Refused", Refused)]


@defect(f"{LOG}/startup/tests/test_recovery.py::test_foreign_files_are_left_alone_and_reported[False]")
def a_foreign_file_is_taken_for_one_of_the_logs() -> list[Patch]:
    """The start reads the name of any file with such an ending as an offset."""
    return [(recovery, "file_state", lambda name: name)]


@defect(f"{LOG}/tests/test_read.py::test_a_search_by_time_reads_nothing_below_the_log_start")
def a_search_by_time_begins_at_the_start_of_a_segment() -> list[Patch]:
    """The search reads batches below the log start, record by record."""
    since = Segment.batches_since
    return [(Segment, "batches_since", lambda self, timestamp, offset: since(self, timestamp, 0))]


@defect(f"{LOG}/tests/test_append.py::test_size_limits_apply_to_a_batch_after_recompression_by_the_topics_codec")
def sizes_are_looked_at_before_the_codec_changes_alone() -> list[Patch]:
    """The topic's codec makes a batch larger, and the log stores it however large it is."""

    def recompressed(self: Rules, records: Bytes, batch: Batch) -> Bytes:
        if self._codec is None or batch.codec == self._codec:
            return records
        return recompress(records, self._codec, self._level)

    return [(Rules, "recompressed", recompressed)]


@defect(f"{LOG}/producers/tests/test_producers.py::test_a_follower_counts_a_producers_idle_time_from_its_own_append")
def producers_expire_by_the_timestamps_of_their_records() -> list[Patch]:
    """The log forgets a producer of old records at the next round, however busy it is."""
    append = ProducerStates.append

    def append_dated(self: ProducerStates, batch: Batch, first: int, last: int, timestamp: int, seen_ms: int) -> None:
        append(self, batch, first, last, timestamp, timestamp)

    return [(ProducerStates, "append", append_dated)]


@defect(f"{LOG}/producers/tests/test_producers.py::test_a_truncation_of_uncommitted_records_does_not_read_the_segment[False]")
def a_cut_replays_the_producers_from_the_start_of_the_segment() -> list[Patch]:
    """However small the truncation is, the loop reads all batch headers of the segment."""
    return [(ProducerStates, "can_undo_to", lambda self, offset: False)]


@defect(f"{LOG}/tests/test_deep_cut.py::test_a_log_that_changes_during_a_deep_truncation_is_read_again[cut]")
def what_was_read_for_a_cut_counts_whatever_the_log_has_become() -> list[Patch]:
    """The state would contain producers of records that are not there any longer."""
    return [(deep_cut, "_state_of", lambda log: None)]


@defect(f"{LOG}/tests/test_manager.py::test_a_configuration_that_no_log_uses_is_forgotten")
def every_configuration_is_kept() -> list[Patch]:
    """Each change of a topic's configuration kept the former one in memory for good."""
    return [(shared_configs, "WeakKeyDictionary", dict)]


@defect(f"{LOG}/startup/tests/test_recovery.py::test_a_followers_log_with_a_gap_in_its_offsets_is_complete_after_a_kill[one-True-False]")
def a_jump_of_the_offsets_is_taken_for_a_loss() -> list[Patch]:
    """After a kill, the start set aside a follower's records after a gap of 2^31 offsets in the leader's log."""
    return [(recovery, "_is_jump", lambda end, following: False)]


@defect(f"{LOG}/startup/tests/test_crash.py::test_case_13_a_gap_in_the_offsets_never_hides_lost_records")
def nothing_is_synced_before_the_offsets_jump() -> list[Patch]:
    """The records before the gap may be lost, and nobody could notice."""
    return [(Log, "flush", lambda self: self.recovery_point)]


@defect(f"{LOG}/producers/tests/test_idle_producers.py::test_a_log_remembers_a_limited_number_of_invented_producers")
def any_number_of_invented_producers_is_remembered() -> list[Patch]:
    """Each invented producer costs its sender 70 bytes, and the broker 440 bytes for a day."""
    return [(ProducerStates, "_make_room", lambda self: None)]


@defect(f"{LOG}/producers/tests/test_idle_producers.py::test_a_producer_with_an_open_transaction_is_not_forgotten")
def a_producer_is_forgotten_in_the_middle_of_its_transaction() -> list[Patch]:
    """The producer's records would become visible, or the last stable offset would never advance."""

    class AnyOffset:
        def __eq__(self, other: object) -> bool:
            return True

    return [(idle_producers, "NO_OFFSET", AnyOffset())]


@in_histories("topics", "retention")
def retention_by_size_keeps_nothing() -> list[Patch]:
    """Retention removes every segment that it can."""

    def count(segments: list[Candidate], config: LogConfig, *facts: int) -> int:
        return expired_count(segments, replace(config, retention_bytes=min(config.retention_bytes, 0)), *facts)

    return [(expiry, "expired_count", count)]


@in_histories("topics of one name", *LOGS, "resurrection")
def topics_share_a_log() -> list[Patch]:
    """A deletion leaves the logs, and a new topic of that name appends to them."""
    set_topic_id = Log.set_topic_id

    def set_any(self: Log, topic_id: bytes) -> None:
        self.topic_id = partition_metadata.ZERO_ID
        set_topic_id(self, topic_id)

    return [
        (LogManager, "delete_all", lambda *_, **__: None),
        (Placement, "_set_logs_aside", lambda *_, **__: None),
        (Log, "set_topic_id", set_any),
    ]


@defect(f"{LOG}/tests/test_unwritten.py::test_a_folder_is_synced_with_the_first_record_of_an_unwritten_log")
def names_of_no_files_count_as_synced() -> list[Patch]:
    """A log without records at the sync of its folder never synced the names of its first files."""
    sync_names = Durability._sync_names

    def sync_all_names(self: Durability) -> None:
        sync_names(self)
        self.names_synced = True

    return [(Durability, "_sync_names", sync_all_names)]
