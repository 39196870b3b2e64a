"""Checkpoint files of a log dir: one offset per partition.

Format (Kafka's, text): a line with the version ``0``, a line with the number of entries, then
``topic partition offset`` lines. ``Storage.replace`` writes the whole file. A file that does not parse
counts as absent: these files only save work, or the log itself bounds their offsets.

* ``recovery-point-offset-checkpoint``: the log is synced up to here; after an unclean stop
  recovery begins here.
* ``replication-offset-checkpoint``: the high watermark.
* ``log-start-offset-checkpoint``: the log start after DeleteRecords or retention, unless the
  names of the segments already show it durably.
* ``cleaner-offset-checkpoint``: the log is compacted up to here; compaction continues from here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from cy.counted import counted
from pybroker.log.files.storage import Storage
from pybroker.topic_partition import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"

VERSION = 0

logger = logging.getLogger(__name__)


class Checkpointed(NamedTuple):
    """What the checkpoint files have for one log; 0 if they have nothing."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    clean_offset: int = 0


class MalformedCheckpoint(ValueError):
    """Raised if the text is not a checkpoint of version 0."""


def encode_lines(lines: list[str]) -> bytes:
    """Returns the content of a checkpoint file with these entries."""
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def decode_lines(data: bytes, fields: int) -> list[list[str]]:
    """Returns the entries of a checkpoint file, each split into ``fields`` words. Raises MalformedCheckpoint."""
    try:
        version, count, *entries = data.decode("utf-8").splitlines()
        if not data.endswith(b"\n"):
            raise MalformedCheckpoint("it ends within a line")
        rows = [entry.split() for entry in entries]
        if int(version) != VERSION or int(count) != len(rows):
            found = counted(len(rows), "entry", "entries")
            raise MalformedCheckpoint(f"it has version {version} and {found}, but its header says {count}")
    except (ValueError, UnicodeDecodeError) as error:
        raise MalformedCheckpoint(str(error)) from error
    if any(len(row) != fields for row in rows):
        raise MalformedCheckpoint(f"an entry does not have {fields} fields")
    return rows


def write_offsets(storage: Storage, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces the checkpoint file at ``path``. Raises OSError."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()]
    storage.replace(path, encode_lines(lines))


def read_offsets(storage: Storage, path: str) -> dict[TopicPartition, int]:
    """Returns the offsets in the file, none if it is missing or malformed. Raises OSError."""
    try:
        rows = decode_lines(storage.read(path), 3)
        return {TopicPartition(topic, int(index)): int(offset) for topic, index, offset in rows}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logger.warning("%s is malformed and ignored: %s", path, error)
        return {}
