"""The table of all names that may be in a log dir, and what a start does with each.

A name appears on the disk at one moment, but its content is written over time. So code that creates, moves, rewrites or
removes something gives it a name that shows its state. Only a rename, which is atomic, ends that state. This table
lists all such names, the state that each stands for, and what a start does if a crash has left something in that state.
``manager`` uses ``FOLDERS`` and ``recovery`` uses ``FILES``. A name that is not in the table belongs to other software,
and a start does not touch it. It does not touch the target of a symbolic link either.

The rules behind it:

* A folder or file with the name of a log is whole, or recovery makes it whole. Incomplete ones have another name.
* To remove something, one durable rename first takes its name away. Then its files are removed, in any order.
* A start removes nothing unless its name says that it may.

``docs/on-disk.md`` shows the table; a test compares them.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from pybroker.log.dirs import closed_logs, log_dir
from pybroker.log.dirs.folders import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_NOTE, STRAY_SUFFIX
from pybroker.log.files import checkpoints, leader_epochs, meta_properties, partition_metadata
from pybroker.log.files.storage import TEMPORARY_SUFFIX
from pybroker.log.producers import producer_snapshot
from pybroker.log.segment.cleaned_segment import CLEANED_SUFFIX, SWAP_SUFFIX
from pybroker.log.segment.segment_files import DELETED_SUFFIX


class Start(Enum):
    """What a broker's start does with a folder or file in this state."""

    OPENS = "opens it"
    READS = "reads it"
    FINISHES = "finishes it"
    REMOVES = "removes it"
    KEEPS = "leaves it alone"


class State(NamedTuple):
    """A row of the table of states."""

    name: str
    """The name of the state as documents show it."""
    pattern: re.Pattern[str]
    meaning: str
    start: Start
    because: str
    """Why the action loses no records and brings no deleted ones back."""


def _row(name: str, pattern: str, meaning: str, start: Start, because: str) -> State:
    return State(name, re.compile(pattern + r"\Z", re.DOTALL | re.ASCII), meaning, start, because)


_MARKED = r".+-\d+\.[^.]+"
_OFFSET = r"0[0-8]\d{18}"
"""The 20 digits of an offset, which has 63 bits. Larger numbers are no offsets, or no log reaches them."""
_SEGMENT = _OFFSET + r"\.(log|index|timeindex|txnindex)"


def _either(*names: str) -> str:
    return "|".join(map(re.escape, names))


FOLDERS = (
    _row(
        "<topic>-<partition>",
        r"(?P<topic>.+)-(?P<partition>\d+)",
        "a log",
        Start.OPENS,
        "It is whole, or recovery makes it whole. If two log dirs have it, a crash has cut a move off between its two "
        "renames. The one with more records is used. The other becomes -delete if the first has all its records, "
        "otherwise -stray. A folder that has other files and none of a log is left alone.",
    ),
    _row(
        "<topic>-<partition>.<id>-future",
        _MARKED + FUTURE_SUFFIX,
        "the copy of a log while it moves to this dir",
        Start.REMOVES,
        "The log is still in its old dir. It loses its name there only after the copy has durably got that name here.",
    ),
    _row(
        "<topic>-<partition>.<id>-delete",
        _MARKED + DELETE_SUFFIX,
        "a log that was deleted or has moved away, while its files are removed",
        Start.REMOVES,
        "It got this name only when it was no longer needed.",
    ),
    _row(
        "<topic>-<partition>.<id>-stray",
        _MARKED + STRAY_SUFFIX,
        "a log that belongs to no known partition, and that no decision has deleted",
        Start.KEEPS,
        "It becomes the log again if its topic has the partition again. Otherwise an operator decides "
        "(`pybroker log strays`).",
    ),
)

FILES = (
    _row(
        "<offset>.log, .index, .timeindex, .txnindex",
        _SEGMENT,
        "a segment",
        Start.OPENS,
        "After an unclean stop, records beyond the recovery point are checked. An index without its log is removed; a "
        "missing index is rebuilt.",
    ),
    _row(
        "<offset>.….deleted",
        _SEGMENT + re.escape(DELETED_SUFFIX),
        "a file of a segment that retention, a truncation or a compaction has removed",
        Start.REMOVES,
        "It got this name only when it was no longer needed.",
    ),
    _row(
        "<offset>.….cleaned",
        _SEGMENT + re.escape(CLEANED_SUFFIX),
        "a file of a segment that a compaction was writing",
        Start.REMOVES,
        "The segments from which it is made are still there.",
    ),
    _row(
        "<offset>.….swap",
        _SEGMENT + re.escape(SWAP_SUFFIX),
        "a file of a segment that a compaction has written completely and synced",
        Start.FINISHES,
        "It replaces the segments from which it was made: those between its first and its last offset, as far as they "
        "still exist. Without its .log it is incomplete, and is removed.",
    ),
    _row(
        "<offset>.log.quarantined-<position>",
        _OFFSET + r"\.log\.quarantined-\d+",
        "the data that recovery found behind a hole",
        Start.KEEPS,
        "An operator decides. A move takes it along.",
    ),
    _row(
        "<offset>.snapshot",
        _OFFSET + re.escape(producer_snapshot.SUFFIX),
        "the state of all producers at that offset",
        Start.READS,
        "It has a CRC. A damaged one is removed and rebuilt from the log. A log of at most 4 KB that has all its "
        "records gets no snapshot when it closes; a start reads the log instead.",
    ),
    _row(
        f"{leader_epochs.FILE_NAME}, {partition_metadata.FILE_NAME}",
        _either(leader_epochs.FILE_NAME, partition_metadata.FILE_NAME),
        "the start of each leader epoch; the topic's id",
        Start.READS,
        "Epochs are rebuilt from the log, the id from the cluster's metadata.",
    ),
    _row(
        STRAY_NOTE,
        _either(STRAY_NOTE),
        "the log's entries in the checkpoint files when it became a stray",
        Start.READS,
        "Once the folder has its old name back, these offsets go into the checkpoint files, and this file is removed.",
    ),
    _row(
        "….tmp",
        r".+" + re.escape(TEMPORARY_SUFFIX),
        "the next content of a small file, before it is renamed into place",
        Start.REMOVES,
        "The file itself has the last complete content.",
    ),
)

_CHECKPOINTS = (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK, checkpoints.LOG_START, checkpoints.CLEANER)

DIR_FILES = (
    _row(
        ", ".join(_CHECKPOINTS),
        _either(*_CHECKPOINTS),
        "offsets of the logs in this dir",
        Start.READS,
        "Offsets count only within the bounds of their logs. A removed log's entries go before another log can get its "
        "name. The entries of a log that moves here are written before it gets its name.",
    ),
    _row(
        log_dir.CLEAN_SHUTDOWN,
        _either(log_dir.CLEAN_SHUTDOWN),
        "a sign that every log was closed after its last write",
        Start.REMOVES,
        "It is durably removed before a log is opened. Without it, logs are checked.",
    ),
    _row(
        closed_logs.FILE_NAME,
        _either(closed_logs.FILE_NAME),
        "what the logs were when they were closed; Kafka ignores it",
        Start.REMOVES,
        "It saves a start the look into each log. It counts only with the sign of the same clean stop, and only for a "
        "log whose files still have the same names, sizes and times. It is removed together with that sign.",
    ),
    _row(
        meta_properties.FILE_NAME,
        _either(meta_properties.FILE_NAME),
        "the broker and cluster to which this dir belongs",
        Start.READS,
        "It is replaced as a whole.",
    ),
)


def folder_state(name: str) -> State | None:
    """Returns the state of a folder in a log dir, None if its name belongs to other software."""
    return _state_of(name, FOLDERS)


def file_state(name: str) -> State | None:
    """Returns the state of a file in the folder of a log, None if its name belongs to other software."""
    return _state_of(name, FILES)


def _state_of(name: str, table: tuple[State, ...]) -> State | None:
    return next((state for state in table if state.pattern.match(name)), None)
