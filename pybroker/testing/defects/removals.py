"""Defects of deletions."""

from __future__ import annotations

from pybroker.log.log import Log
from pybroker.log.move import Move
from pybroker.testing.defects import Patch, defect

ONE_FILE = "pybroker/log/tests/test_removals.py::test_a_deletion_waits_for_the_sync_of_one_file_at_most"
BOTH = "pybroker/log/tests/test_removals.py::test_both_folders_go_where_a_log_is_deleted_while_its_move_is_synced"


@defect(ONE_FILE)
def a_deletion_waits_for_the_sync_of_the_whole_log() -> list[Patch]:
    """All metadata waited for it: 17 s for a log of 4,000 segments."""

    def go_on(self: Log) -> None:
        pass

    return [(Log, "forsake", go_on)]


@defect(BOTH)
def a_move_whose_log_is_deleted_meanwhile_leaves_the_old_folder() -> list[Patch]:
    """The sync that the deletion had ended was taken for a failure of the move."""

    def flush(self: Move) -> None:
        self.log.flush()

    return [(Move, "_flush", flush)]
