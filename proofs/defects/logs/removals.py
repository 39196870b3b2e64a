"""Defects of deletions."""

from __future__ import annotations

from collections.abc import Callable

from proofs.defects import Patch, defect
from pybroker.log import deep_cut, expiry, manager
from pybroker.log.compaction import cleanable
from pybroker.log.log_files import LogFiles
from pybroker.log.moving.move import Move
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.removal.leaving import Leaving
from pybroker.replication import replica_manager

ONE_FILE = "pybroker/log/removal/tests/test_removals.py::test_a_deletion_waits_for_at_most_one_file_sync"
BOTH = "pybroker/log/removal/tests/test_removals.py::test_both_folders_are_removed_if_a_log_is_deleted_during_its_move"
DELETED = "pybroker/replication/tests/test_deleted_topics.py"
TURNS = "pybroker/log/tests/test_removed_per_turn.py"
MANY = 1 << 30


@defect(ONE_FILE)
def a_deletion_waits_for_the_sync_of_the_whole_log() -> list[Patch]:
    """All metadata waited for the sync: 17 s for a log of 4,000 segments."""

    def go_on(self: LogFiles) -> None:
        pass

    return [(LogFiles, "forsake", go_on)]


@defect(f"{DELETED}::test_a_log_that_is_made_directly_waits_for_the_old_one_too")
def a_new_log_does_not_wait_for_the_deleted_one_of_its_name() -> list[Patch]:
    """The new log was opened in the old log's folder, which was then deleted."""
    return [(Leaving, "__contains__", lambda self, topic_partition: False)]


@defect(BOTH)
def a_move_whose_log_is_deleted_meanwhile_leaves_the_old_folder() -> list[Patch]:
    """The move took the sync that the deletion had ended for a failure."""

    def flush(self: Move) -> None:
        self.log.flush()

    return [(Move, "_flush", flush)]


@defect(f"{TURNS}::test_retention_removes_many_segments_in_several_turns_of_the_event_loop[size]")
def retention_takes_all_segments_in_one_turn() -> list[Patch]:
    """The event loop renamed the files of thousands of segments before it served anybody else."""
    return [(expiry, "REMOVED_PER_TURN", MANY), (manager, "REMOVED_PER_TURN", MANY)]


@defect("pybroker/replication/tests/test_replica_manager.py::test_deleted_records_take_many_segments_along_in_several_turns")
def deleted_records_take_all_segments_in_one_turn() -> list[Patch]:
    """The event loop renamed all files in one turn, as in retention."""
    return [(expiry, "REMOVED_PER_TURN", MANY), (replica_manager, "REMOVED_PER_TURN", MANY)]


@defect(f"{TURNS}::test_a_reset_log_removes_many_segments_in_several_turns_of_the_event_loop[0]")
def a_cut_takes_all_segments_in_one_turn() -> list[Patch]:
    """A follower that had to start over blocked the event loop of its broker."""
    return [(deep_cut, "REMOVED_PER_TURN", MANY)]


@defect(f"{TURNS}::test_a_compaction_swaps_many_segments_in_several_turns_of_the_event_loop")
def a_compaction_swaps_any_number_of_segments_at_once() -> list[Patch]:
    """The compaction replaced thousands of small segments by one, in one turn of the event loop."""
    return [(cleanable, "REMOVED_PER_TURN", MANY)]


@defect(f"{TURNS}::test_the_time_to_remove_snapshots_grows_in_proportion_to_their_number")
def each_snapshot_that_goes_is_looked_for_among_all() -> list[Patch]:
    """The search takes a second for some thousands of snapshots."""

    def remove_snapshots(self: ProducerStates, condition: Callable[[int], bool]) -> None:
        for offset in [offset for offset in self._snapshots if condition(offset)]:
            self._storage.unlink(self._path(offset))
            self._snapshots.remove(offset)

    return [(ProducerStates, "remove_snapshots", remove_snapshots)]
