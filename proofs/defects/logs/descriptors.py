"""Defects of a process that has no file descriptors left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from proofs.defects import Patch, defect
from pybroker.log import truncation
from pybroker.log.dirs import log_dir
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.durability import Durability
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.index_file import IndexFile
from pybroker.log.files.storage import OutOfDescriptors
from pybroker.log.log import Log
from pybroker.log.moving.log_copy import LogCopy
from pybroker.log.moving.move import Move
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.removal.removals import Removals
from pybroker.log.removal.strays import Strays
from pybroker.log.replay import replay_producers
from pybroker.log.segment.cleaned_segment import CleanedSegment, finish_swap
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.net import limits
from pyclient.protocol import errors

TESTS = "pybroker/log/tests/test_descriptors.py"
CUTS = "pybroker/log/tests/test_cut_descriptors.py"
REFUSED = f"{TESTS}::test_an_operation_without_a_free_descriptor_changes_nothing_and_succeeds_later"


def _reads_in_the_cut() -> Patch:
    """Reads producers for the truncation only after the truncation, which cannot be undone."""
    ends_at, can_undo_to = truncation._ends_at, ProducerStates.can_undo_to

    def read_and_end(log: Log, offset: int, producers: ProducerStates | None) -> None:
        if producers is None and not can_undo_to(log.producers, offset):
            replay_producers(log.producers, log.segments, log.log_start_offset, offset)
        ends_at(log, offset, producers)

    return (truncation, "_ends_at", read_and_end)


@defect(f"{REFUSED}[append]")
def without_descriptors_a_log_dir_fails() -> list[Patch]:
    """The log dir treated EMFILE as a failure of the disk. The broker ended with its last log dir."""
    return [(log_dir, "OutOfDescriptors", FileExistsError)]


@defect(f"{TESTS}::test_the_next_sync_covers_what_a_sync_without_descriptors_left_out")
def what_a_refused_sync_has_left_out_counts_as_synced() -> list[Patch]:
    """The log marked the file as synced before the sync, and never tried again."""
    sync_topic_id = Durability._sync_topic_id

    def sync(self: Durability) -> None:
        try:
            sync_topic_id(self)
        except OSError:
            self.topic_id_synced = True
            raise

    return [(Durability, "_sync_topic_id", sync)]


@defect(f"{REFUSED}[cut]")
def a_recovery_point_that_could_not_be_written_is_not_written_later() -> list[Patch]:
    """The second truncation found the recovery point low enough. After a crash, the start would have trusted later
    appends unsynced.
    """
    lower = Durability.lower

    def lower_once(self: Durability, offset: int) -> None:
        self._lowered = False
        lower(self, offset)

    return [(Durability, "lower", lower_once)]


@defect(f"{TESTS}::test_a_new_topic_waits_until_the_old_log_of_its_name_is_a_stray")
def a_log_that_could_not_be_set_aside_is_forgotten() -> list[Patch]:
    """The folder of the log kept its name, so a new topic of that name got the log of another topic."""
    return [(Strays, "set_aside_waiting", lambda self, now_ms, topic_partition=None: None)]


@defect(f"{REFUSED}[take back]")
def a_name_that_could_not_be_synced_stays() -> list[Patch]:
    """The second attempt to rename found no folder."""

    def rename(self: LogDir, old: str, new: str) -> None:
        self.storage.rename(old, new)
        self.storage.sync_folder(self.path)

    return [(LogDir, "rename", rename)]


@defect(f"{REFUSED}[abort]")
def an_index_that_cannot_be_written_fails_the_append() -> list[Patch]:
    """The log needs no index file for an append: indexes are in memory too, and a sync writes them."""
    return [(IndexFile, "save_if_possible", lambda self: self.save())]


@defect(f"{REFUSED}[abort]")
def an_append_reads_what_it_needs_when_it_has_written() -> list[Patch]:
    """The append failed after its write, so the file contained records that the log did not know."""
    return [(IndexFile, "hold", lambda self: None)]


@defect(f"{TESTS}::test_a_compaction_without_descriptors_is_repeated")
def a_swap_reads_a_file_between_its_renames() -> list[Patch]:
    """The swap stopped between the old segments and the new one."""

    def to_final(self: CleanedSegment) -> None:
        finish_swap(self._storage, self._stem)

    return [(CleanedSegment, "to_final", to_final)]


@defect(f"{REFUSED}[cut]")
def a_cut_opens_files_when_it_has_begun() -> list[Patch]:
    """The truncation stopped half-way and took the log dir offline."""
    return [(SegmentFiles, "held", lambda self: contextlib.nullcontext())]


@defect(f"{CUTS}::test_the_files_that_a_truncation_needs_stay_open_until_it_ends")
def the_cache_closes_what_a_cut_needs() -> list[Patch]:
    """The truncation failed although its segment was opened in time, because other reads closed the file before."""

    @contextlib.contextmanager
    def held(self: SegmentFiles) -> Iterator[None]:
        (self.data or self.open()).read(0, 0)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.hold()
        yield

    return [(SegmentFiles, "held", held)]


@defect(f"{CUTS}::test_a_truncation_in_a_compaction_gap_opens_no_file_once_it_has_begun")
def a_cut_undoes_to_the_end_that_is_left() -> list[Patch]:
    """If compaction has removed the batches before the truncation, the log's end is lower than the truncation. So the
    journal could not be used, and the log was read.
    """
    return [_reads_in_the_cut()]


@defect(f"{REFUSED}[deep cut]")
def a_deep_cut_reads_the_log_when_it_is_cut() -> list[Patch]:
    """A truncation that the journal of producers does not reach also took the log dir offline."""
    return [(ProducerStates, "can_undo_to", lambda self, offset: True), _reads_in_the_cut()]


@defect(f"{REFUSED}[start over]")
def a_log_that_starts_over_is_emptied_before_its_new_file_is_there() -> list[Patch]:
    """The log had no segment until the new file was there."""

    def place(self: SegmentFiles) -> None:
        self.data = None
        file = self.storage.open(self.path, create=True)
        file.truncate(0)
        self.offset_index.start_empty()
        self.time_index.start_empty()
        self.adopt(file)

    return [(SegmentFiles, "place", place)]


@defect("pybroker/net/tests/test_limits.py::test_the_default_limit_of_connections_leaves_file_descriptors_to_the_logs")
def connections_take_all_descriptors() -> list[Patch]:
    """Without max.connections, nothing limited the connections."""
    return [(limits, "descriptors_for_connections", lambda: limits.UNLIMITED)]


@defect(f"{TESTS}::test_a_log_deleted_without_free_descriptors_loses_its_files_once_its_deletion_is_durable")
def files_of_a_deleted_log_go_before_that_is_durable() -> list[Patch]:
    """If the sync of the renaming had to wait for a descriptor, a power cut leaves a part of the log under its name."""
    submit = Removals._submit
    return [(Removals, "_submit", lambda self, folders: submit(self, dict.fromkeys(folders)))]


@defect(f"{REFUSED}[create]")
def a_topic_id_is_known_before_it_is_written() -> list[Patch]:
    """Without a descriptor, the log never wrote the id. At the next start any topic of that name gets the log."""
    set_topic_id = Log.set_topic_id

    def set_first(self: Log, topic_id: bytes) -> None:
        try:
            set_topic_id(self, topic_id)
        except errors.KafkaStorageError:
            self.topic_id = topic_id
            raise

    return [(Log, "set_topic_id", set_first)]


@defect("pybroker/log/moving/tests/test_running_moves.py::test_a_move_that_ran_out_of_descriptors_completes_later")
def a_move_that_could_not_end_is_forgotten() -> list[Patch]:
    """The move's old folder keeps the log's name."""
    drop_old = Move._drop_old

    def drop_once(self: Move, old_dir: LogDir, folder: str) -> None:
        self._on_end(self)
        drop_old(self, old_dir, folder)

    return [(Move, "_drop_old", drop_once)]


@defect("pybroker/log/tests/test_read.py::test_case_8_damage_is_detected_after_the_file_was_closed_and_reopened")
def what_was_read_before_the_file_was_closed_stays_trusted() -> list[Patch]:
    """The cache closes a file to make room. The disk may then return other bytes, which nobody checks."""

    def release(self: SegmentFiles) -> None:
        self.data = None

    return [(SegmentFiles, "release", release)]


@defect(f"{TESTS}::test_idle_files_are_closed_to_open_another")
def idle_files_stay_open_where_descriptors_are_lacking() -> list[Patch]:
    """The broker refused a request although it could have closed idle files."""
    return [(FileCache, "make_room", lambda self: None)]


@defect(f"{TESTS}::test_a_start_without_descriptors_opens_a_log_dir_completely_or_not_at_all")
def a_start_goes_on_without_a_log_for_which_a_descriptor_was_lacking() -> list[Patch]:
    """The start writes the checkpoint files without that log, and a new log may take its name."""
    return [(LogDir, "take_offline", lambda self, error, doing: None)]


@defect(f"{REFUSED}[move]")
def a_move_without_descriptors_leaves_a_file_of_somebody_else_behind() -> list[Patch]:
    """The move took a foreign file for one that it may not open, and deleted it with the old folder."""
    copy = LogCopy._copy_foreign

    def copy_or_leave(self: LogCopy, name: str) -> None:
        with contextlib.suppress(OutOfDescriptors):
            copy(self, name)

    return [(LogCopy, "_copy_foreign", copy_or_leave)]
