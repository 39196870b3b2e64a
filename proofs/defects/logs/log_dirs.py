"""Defects of the contents of log dirs: moves, deletions, two logs of one name."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from proofs.defects import Patch, defect
from pybroker.log.dirs import folder_states, log_dir
from pybroker.log.dirs.log_dir import HeldLog, LogDir
from pybroker.log.dirs.preferred_dirs import PreferredDirs
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pybroker.log.log_start import LogStart
from pybroker.log.manager import LogManager
from pybroker.log.moving import rivals
from pybroker.log.moving.log_copy import LogCopy
from pybroker.log.moving.move import Move
from pybroker.log.moving.running_moves import RunningMoves
from pybroker.log.removal.removals import Removals
from pybroker.log.startup import opening, recovery
from pybroker.pools import Pools
from pybroker.replication.moves import Moves
from pybroker.topic_partition import TopicPartition

LOG = "pybroker/log"
STARTS = f"{LOG}/tests/test_log_start.py"
CRASHES = (
    f"{LOG}/startup/tests/test_crash_folders.py"
    "::test_no_crash_loses_a_log_that_moves_or_brings_back_one_that_was_deleted[3]"
)


def _first_dir_wins() -> list[Patch]:
    return [(rivals, "has_more", lambda first, second: False)]


@defect(f"{LOG}/dirs/tests/test_failing_dirs.py::test_a_log_dir_goes_offline_at_once_though_a_checkpoint_write_hangs")
def a_dir_that_fails_waits_for_its_checkpoint() -> list[Patch]:
    """The failure of a dir and the write of its checkpoint shared a lock. A disk that hung in a sync thus blocked the
    event loop.
    """
    fail = LogDir.fail

    def after_the_checkpoint(self: LogDir, error: OSError, doing: str) -> Any:
        with self._checkpointing:
            return fail(self, error, doing)

    return [(LogDir, "fail", after_the_checkpoint)]


@defect(f"{LOG}/tests/test_manager.py::test_a_folder_named_like_a_log_without_log_files_is_left_alone")
def every_folder_with_the_name_of_a_log_is_one() -> list[Patch]:
    """The start takes somebody's folder for a log, and renames it to a stray because its topic is unknown."""
    return [(opening, "_is_log", lambda storage, folder: True)]


@defect(f"{LOG}/tests/test_manager.py::test_a_link_in_a_log_dir_is_not_followed")
def a_link_in_a_log_dir_is_a_folder() -> list[Patch]:
    """A start writes and removes files in the folder that the link leads to."""

    def folders(self: Storage, path: str) -> list[str]:
        return sorted(name for name in os.listdir(path) if os.path.isdir(os.path.join(path, name)))

    return [(Storage, "folders", folders)]


@defect(CRASHES)
def the_folder_of_a_moved_log_is_removed_in_place() -> list[Patch]:
    """A crash leaves a part of the log under its name. The next start uses it if its dir is the first."""

    def drop(self: Move, old_dir: LogDir, folder: str) -> None:
        old_dir.storage.remove_folder(folder)

    return [(Move, "_drop_old", drop), *_first_dir_wins()]


@defect(f"{LOG}/moving/tests/test_move.py::test_the_disk_that_fails_during_the_switch_goes_offline")
def the_disk_to_which_a_log_moves_is_blamed_for_the_other() -> list[Patch]:
    """A failure to write indexes in the old log dir took the new log dir offline."""
    of_source = LogCopy._of_source

    def of_either(self: LogCopy, work: Any) -> Any:
        return work() if work.__name__ == "save_indexes" else of_source(self, work)

    return [(LogCopy, "_of_source", of_either)]


@defect(f"{LOG}/moving/tests/test_rivals.py::test_a_start_never_prefers_an_incomplete_folder_to_a_complete_one")
def of_two_logs_the_first_dirs_is_used() -> list[Patch]:
    """The start uses the first log even if it is an incomplete copy."""
    return _first_dir_wins()


@defect(f"{LOG}/moving/tests/test_rivals.py::test_a_replica_can_move_to_a_dir_with_its_old_remains")
def the_other_of_two_logs_is_left_where_it_is() -> list[Patch]:
    """The next move to that dir finds the name taken, and the dir fails."""
    return [(LogManager, "_displace", lambda self, log, winner: None)]


@defect(CRASHES)
def files_of_a_deleted_log_go_before_it_has_lost_its_name() -> list[Patch]:
    """A power cut leaves a part of the log under its name."""

    def delete(self: Removals, log_dir: LogDir, logs: list[Log]) -> None:
        for log in logs:
            log.files.abandon()
            log_dir.storage.remove_folder(log.folder)

    return [(Removals, "delete", delete)]


@defect(f"{LOG}/moving/tests/test_running_moves.py::test_a_deletion_during_a_move_renames_every_folder_of_the_log")
def a_second_move_makes_the_first_one_forgotten() -> list[Patch]:
    """The first move has switched but not settled, so its old folder keeps the log's name. A new topic finds the old
    records.
    """

    def cancel(self: RunningMoves, log: Log) -> None:
        newest = self.newest(log)
        if newest is not None:
            newest.cancel()
            self._moves.pop(log, None)

    return [(RunningMoves, "cancel", cancel)]


@defect(f"{LOG}/moving/tests/test_running_moves.py::test_a_disk_that_has_failed_is_not_copied_from")
def a_log_moves_away_from_a_disk_that_has_failed() -> list[Patch]:
    """The move copies whatever the kernel still returns from the failed disk."""
    return [(LogDir, "check_online", lambda self: None)]


@defect(f"{LOG}/moving/tests/test_rivals.py::test_a_crash_in_the_middle_of_a_start_that_displaces_a_log_loses_no_checkpoint")
def a_log_is_displaced_before_the_others_of_its_dir_are_open() -> list[Patch]:
    """The start writes the checkpoint files without the other logs. A second crash then brings their deleted records
    back.
    """
    load = recovery.load

    def load_and_write(log_dir: LogDir, *args: Any, **options: Any) -> Log:
        log = load(log_dir, *args, **options)
        log_dir.write_checkpoints()
        return log

    return [(recovery, "load", load_and_write)]


@defect(
    f"{LOG}/startup/tests/test_recovery.py"
    "::test_a_compaction_gap_is_not_quarantined_before_the_configuration_is_known"
)
def only_a_compacted_topics_log_may_have_gaps() -> list[Patch]:
    """When a log opens, its topic's configuration is not known yet. So the start took gaps left by compaction for a
    loss, and set the following records aside.
    """

    def is_compacted_below(self: recovery._Loader, offset: int) -> bool:
        return self.config.is_compacted and offset <= self.checkpointed.clean_offset

    return [(recovery._Loader, "_is_compacted_below", is_compacted_below)]


@defect(f"{LOG}/moving/tests/test_move.py::test_a_move_skips_an_unreadable_foreign_file")
def a_file_of_somebody_else_that_may_not_be_opened_fails_the_dir() -> list[Patch]:
    """A file of an administrator in a log's folder took all logs of its dir offline."""

    def copy(self: LogCopy, name: str) -> None:
        self._copy_whole(name, self._opened(f"{self._log.folder}/{name}"))

    return [(LogCopy, "_copy_foreign", copy)]


@defect(f"{LOG}/moving/tests/test_move.py::test_a_log_that_is_truncated_while_it_is_read_is_copied_again")
def a_move_is_given_up_where_the_log_is_cut_while_it_is_read() -> list[Patch]:
    """Each new leader makes a follower truncate its log, and so ended the move."""
    return [(LogCopy, "update", LogCopy._update)]


@defect(f"{LOG}/dirs/tests/test_folder_states.py::test_a_start_changes_no_foreign_file_of_a_log[{10**20 - 1}.log]")
def any_twenty_digits_are_an_offset() -> list[Patch]:
    """The broker cannot serve a log that ends beyond 63 bits."""
    segment = folder_states.FILES[0]

    def of_digits(name: str) -> folder_states.State | None:
        return segment if name[:20].isdecimal() and name[20:] == ".log" else folder_states.file_state(name)

    return [(recovery, "file_state", of_digits)]


@defect(f"{LOG}/dirs/tests/test_folder_states.py::test_a_start_changes_no_foreign_file_of_a_log")
def every_file_is_taken_for_the_logs() -> list[Patch]:
    """A file whose name only resembles a segment's keeps the broker from starting."""
    segment = folder_states.FILES[0]
    return [(recovery, "file_state", lambda name: folder_states.file_state(name) or segment)]


@defect(CRASHES)
def the_old_folder_goes_before_the_copy_is_on_the_disk() -> list[Patch]:
    """A power cut takes acknowledged, synced records from the copy."""

    def drop_first(self: Move) -> None:
        if self._old is not None:
            self._drop_old(self._old.log_dir, self._old.folder)
            self._old = None
            self._on_end(self)

    return [(Move, "settle", drop_first)]


@defect(f"{LOG}/moving/tests/test_move.py::test_the_switch_of_a_move_on_the_event_loop_syncs_nothing_and_copies_little")
def a_move_syncs_on_the_loop() -> list[Patch]:
    """The broker serves nobody during the sync of a move, which takes a minute for thousands of segments."""
    switch = Move.switch

    def and_sync(self: Move) -> bool:
        switched = switch(self)
        self.log.flush()
        return switched

    return [(Move, "switch", and_sync)]


@defect(f"{LOG}/moving/tests/test_move.py::test_a_move_of_a_truncated_log_does_not_copy_on_the_event_loop")
def a_truncated_log_is_copied_again_on_the_loop() -> list[Patch]:
    """The broker serves nobody while it copies a truncated log again."""
    switch = Move.switch

    def and_copy(self: Move) -> bool:
        while not switch(self):
            self.copy()
        return True

    return [(Move, "switch", and_copy)]


@defect(f"{LOG}/moving/tests/test_move.py::test_files_that_cannot_be_removed_do_not_fail_their_dir")
def a_file_that_cannot_be_removed_fails_its_dir() -> list[Patch]:
    """Nobody needs the file, and NFS keeps files that are being sent."""

    def remove(self: Removals, folder: str, log_dir: LogDir | None) -> None:
        self._storage.unlink(f"{folder}/{0:020d}.log")

    return [(Removals, "_remove", remove)]


@defect("pybroker/replication/tests/test_moves.py::test_neither_acks_nor_metadata_wait_for_moves")
def all_work_shares_eight_threads() -> list[Patch]:
    """With eight moves, no ack of flush.acks comes."""
    return [(Pools, "threads", lambda copies: Pools.one(ThreadPoolExecutor(8)))]


@defect("pybroker/replication/tests/test_replica_manager.py::test_metadata_go_on_while_the_files_of_a_deleted_topic_are_removed")
def the_files_of_a_deleted_topic_are_waited_for() -> list[Patch]:
    """While thousands of files are unlinked, no metadata are applied and no controller decides."""
    delete = Removals.delete

    def and_wait(self: Removals, log_dir: LogDir, logs: list[Log]) -> None:
        logs = list(logs)
        delete(self, log_dir, logs)
        self._executor.submit(lambda: None).result(5)

    return [(Removals, "delete", and_wait)]


@defect(f"{LOG}/dirs/tests/test_preferred_dirs.py::test_the_preferred_dirs_that_clients_request_are_limited")
def every_wish_for_a_log_dir_is_remembered() -> list[Patch]:
    """The broker remembers also partitions that never existed: three requests take half a gigabyte."""
    return [(PreferredDirs, "_forget", lambda self, now_ms: None)]


@defect(
    "pybroker/handlers/tests/test_log_dirs.py"
    "::test_a_replica_requested_on_a_failed_disk_is_created_elsewhere"
)
def a_wish_for_a_log_dir_that_failed_keeps_the_replica_unmade() -> list[Patch]:
    """The log dir worked when it was requested, but had failed when the replica came. The replica stays without a log
    until the next start.
    """

    def preferred_dir(self: Moves, topic_partition: TopicPartition) -> str | None:
        return self._preferred.take(topic_partition, self._clock.monotonic_ms())

    return [(Moves, "preferred_dir", preferred_dir)]


@defect(f"{STARTS}::test_records_deleted_up_to_a_segments_end_stay_deleted_after_a_power_cut")
def segments_tell_a_start_before_their_folder_is_synced() -> list[Patch]:
    """The checkpoint file omitted a log whose start was its first segment's. A power cut undid the renames of earlier
    segments, and deleted records came back.
    """
    must_be_told = log_dir._must_be_told

    def told(log: Log) -> bool:
        return must_be_told(log) and log.log_start_offset > log.first_segment_offset

    return [(log_dir, "_must_be_told", told)]


def _old_dir_forgets() -> list[Patch]:
    switch, entries = Move._switch, Move.checkpoint_entries

    def forgetting(self: Move) -> bool:
        old = self.log.log_dir
        has_switched = switch(self)
        if has_switched:
            self.log.files.has_left(old)
            old.stale.add(self.log.topic_partition)
        return has_switched

    def entries_in_target(self: Move, log_dir: LogDir) -> list[tuple[HeldLog, int]]:
        return entries(self, log_dir) if log_dir is self.target else []

    return [(Move, "_switch", forgetting), (Move, "checkpoint_entries", entries_in_target)]


@defect(f"{STARTS}::test_records_deleted_before_a_move_settles_stay_deleted_after_a_kill")
def records_are_deleted_in_the_new_dir_only() -> list[Patch]:
    """The old folder still has the log's name. It contained more records, so the next start chose it."""
    return _old_dir_forgets()


@defect(f"{STARTS}::test_records_deleted_before_a_move_stay_deleted_if_the_power_is_cut_before_it_settles")
def the_old_dir_forgets_a_log_that_has_switched() -> list[Patch]:
    """The old folder may win after a power cut, and no checkpoint says where its log begins."""
    return _old_dir_forgets()


@defect(f"{STARTS}::test_a_log_truncated_below_its_start_keeps_later_appends")
def a_start_is_told_that_is_beyond_the_cut() -> list[Patch]:
    """The next start of the broker discarded records that were appended after the truncation."""
    return [(LogStart, "take_back", lambda self, offset: None)]
