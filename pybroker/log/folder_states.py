"""What may stand in a log dir, and what a start does with it: the one table.

A name on the disk appears at one moment, its content is made over many. Whoever makes, moves, rewrites or removes
something therefore gives it a name that says how far it is, and only a rename, which is one moment, ends that. This
table lists all such names: for each the state that it stands for, and what a start does with what a crash has left in
that state. ``manager`` goes by ``FOLDERS`` and ``recovery`` by ``FILES``; what the table does not know belongs to
somebody else, and is left alone.

The rules behind it:

* What has the name of a log is whole, or is made whole by recovery. What is not whole has another name.
* What is to be removed loses its name first, in one durable rename; then its files go, in any order, at any pace.
* Nothing is removed at a start unless its name says that it may be.

``docs/on-disk.md`` shows the table; a test compares.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from pybroker.log import (
    checkpoints,
    leader_epochs,
    log_dir,
    meta_properties,
    partition_metadata,
    producer_snapshot,
)
from pybroker.log.cleaned_segment import CLEANED_SUFFIX, SWAP_SUFFIX
from pybroker.log.folders import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_NOTE, STRAY_SUFFIX
from pybroker.log.segment_files import DELETED_SUFFIX
from pybroker.log.storage import TEMPORARY_SUFFIX


class Start(Enum):
    """What a start does."""

    OPENS = "opens it"
    READS = "reads it"
    FINISHES = "finishes it"
    REMOVES = "removes it"
    KEEPS = "leaves it alone"


class State(NamedTuple):
    """A row of the table."""

    name: str
    """As people read it."""
    pattern: re.Pattern[str]
    meaning: str
    start: Start
    because: str
    """Why nothing is lost by that, and nothing comes back."""


def _row(name: str, pattern: str, meaning: str, start: Start, because: str) -> State:
    return State(name, re.compile(pattern + r"\Z", re.DOTALL | re.ASCII), meaning, start, because)


_MARKED = r".+-\d+\.[^.]+"
_OFFSET = r"0[0-8]\d{18}"
"""An offset has 63 bits: what begins otherwise is none, or one that no log reaches."""
_SEGMENT = _OFFSET + r"\.(log|index|timeindex|txnindex)"


def _either(*names: str) -> str:
    return "|".join(map(re.escape, names))


FOLDERS = (
    _row(
        "<topic>-<partition>",
        r"(?P<topic>.+)-(?P<partition>\d+)",
        "a log",
        Start.OPENS,
        "It is whole, or recovery makes it so. Where two log dirs have it, a move was cut off between its two renames: "
        "the one that has more is used. The other one becomes -delete where the first has all of it, else -stray.",
    ),
    _row(
        "<topic>-<partition>.<id>-future",
        _MARKED + FUTURE_SUFFIX,
        "the copy of a log that is being moved to this dir",
        Start.REMOVES,
        "The log is still where it was: it loses its name there only after the copy has got it here, durably.",
    ),
    _row(
        "<topic>-<partition>.<id>-delete",
        _MARKED + DELETE_SUFFIX,
        "a log that was deleted, or that has moved to another dir, while its files go",
        Start.REMOVES,
        "Whoever gave it this name had finished with it.",
    ),
    _row(
        "<topic>-<partition>.<id>-stray",
        _MARKED + STRAY_SUFFIX,
        "a log that belongs to no partition, and that nobody has said to delete",
        Start.KEEPS,
        "It becomes the log again where its topic has the partition again; else people decide (`pybroker log strays`).",
    ),
)

FILES = (
    _row(
        "<offset>.log, .index, .timeindex, .txnindex",
        _SEGMENT,
        "a segment",
        Start.OPENS,
        "After an unclean stop what lies beyond the recovery point is checked. An index without its log is removed, a "
        "missing index is made again.",
    ),
    _row(
        "<offset>.….deleted",
        _SEGMENT + re.escape(DELETED_SUFFIX),
        "of a segment that retention, a truncation or a compaction has removed",
        Start.REMOVES,
        "Whoever gave it this name had finished with it.",
    ),
    _row(
        "<offset>.….cleaned",
        _SEGMENT + re.escape(CLEANED_SUFFIX),
        "of a segment that a compaction was writing",
        Start.REMOVES,
        "The segments that it is made from are still there.",
    ),
    _row(
        "<offset>.….swap",
        _SEGMENT + re.escape(SWAP_SUFFIX),
        "of a segment that a compaction has written, whole and on the disk",
        Start.FINISHES,
        "It replaces the segments that it was made from, those between its first and its last offset, as many of them "
        "as are left. Without its .log it is not whole, and is removed.",
    ),
    _row(
        "<offset>.log.quarantined-<position>",
        _OFFSET + r"\.log\.quarantined-\d+",
        "what recovery has found behind a hole",
        Start.KEEPS,
        "People decide. A move takes it along.",
    ),
    _row(
        "<offset>.snapshot",
        _OFFSET + re.escape(producer_snapshot.SUFFIX),
        "the producers as they were at that offset",
        Start.READS,
        "It has a CRC: one that is not whole is removed, and made again from the log.",
    ),
    _row(
        f"{leader_epochs.FILE_NAME}, {partition_metadata.FILE_NAME}",
        _either(leader_epochs.FILE_NAME, partition_metadata.FILE_NAME),
        "where leader epochs begin; the topic's id",
        Start.READS,
        "Epochs are made again from the log, the id from the cluster's metadata.",
    ),
    _row(
        STRAY_NOTE,
        _either(STRAY_NOTE),
        "what the checkpoint files said of a log when it was set aside",
        Start.READS,
        "Where the folder has its old name back, its offsets go into the checkpoint files, and then it goes.",
    ),
    _row(
        "….tmp",
        r".+" + re.escape(TEMPORARY_SUFFIX),
        "the next content of a small file, before the rename that gives it its name",
        Start.REMOVES,
        "The file itself has the last content that was whole.",
    ),
)

_CHECKPOINTS = (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK, checkpoints.LOG_START, checkpoints.CLEANER)

DIR_FILES = (
    _row(
        ", ".join(_CHECKPOINTS),
        _either(*_CHECKPOINTS),
        "offsets of the logs in this dir",
        Start.READS,
        "They are believed within the bounds of their logs. A log that is no more leaves them before another one gets "
        "its name; one that moves here is in them before it has its name.",
    ),
    _row(
        log_dir.CLEAN_SHUTDOWN,
        _either(log_dir.CLEAN_SHUTDOWN),
        "every log was closed after its last write",
        Start.REMOVES,
        "It goes, durably, before a log is opened; without it logs are checked.",
    ),
    _row(
        meta_properties.FILE_NAME,
        _either(meta_properties.FILE_NAME),
        "whose dir this is",
        Start.READS,
        "It is replaced whole.",
    ),
)


def folder_state(name: str) -> State | None:
    """The state of a folder in a log dir; None for what is not ours."""
    return _state_of(name, FOLDERS)


def file_state(name: str) -> State | None:
    """The state of a file in the folder of a log; None for what is not ours."""
    return _state_of(name, FILES)


def _state_of(name: str, table: tuple[State, ...]) -> State | None:
    return next((state for state in table if state.pattern.match(name)), None)
