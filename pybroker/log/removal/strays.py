"""Strays: logs that belong to no known partition of this broker and that no decision has deleted.

A topic may be missing in the metadata by mistake: after a backup was restored, or a node removed by hand. So its logs
are kept. Such a log is closed, and its folder gets Kafka's name for it::

    <topic>-<partition>.<id>-stray/

From then on nothing changes it: no retention, no compaction, no truncation, no deletion. A new topic of the same name
has a folder of its own beside it. If a topic with the same id has the partition again, the stray becomes its log
again. Otherwise an operator decides: ``pybroker log strays`` lists, adopts and removes strays.

``stray.json`` in the folder describes the log: version, topic, partition, the four offsets, whether the log was closed
in order, and when and why it was set aside. It is needed because the folder's name may have a shortened topic, and the
checkpoint files no longer have the offsets. It is written before the folder is renamed, and stays when the folder gets
its old name back. The next start moves the offsets into the checkpoint files and removes ``stray.json``. A crash in
between loses nothing: a folder with the name of a log is a log, whatever else is in it.

Thread-safety: the functions on files may block. Any thread may call the methods of ``Strays``.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import NamedTuple

from pybroker.log.dirs.folders import STRAY_NOTE, STRAY_SUFFIX, marked_name, parse_marked
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import partition_metadata
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

FILE_NAME = STRAY_NOTE
VERSION = 0

logger = logging.getLogger(__name__)


class Note(NamedTuple):
    """The content of ``stray.json``, which describes a stray."""

    topic_partition: TopicPartition
    checkpointed: Checkpointed
    is_clean: bool
    """True if the log was closed in order."""
    since_ms: int
    why: str

    def encode(self) -> bytes:
        """Returns the file's content."""
        document = {
            "version": VERSION,
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            **self.checkpointed._asdict(),
            "is_clean": self.is_clean,
            "since_ms": self.since_ms,
            "why": self.why,
        }
        return json.dumps(document, indent=1).encode() + b"\n"


def decode(data: bytes) -> Note:
    """Parses ``stray.json``. Raises ValueError."""
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            raise ValueError(f"version {VERSION} is expected")
        return Note(
            TopicPartition(str(found["topic"]), int(found["partition"])),
            Checkpointed(*(int(found[name]) for name in Checkpointed._fields)),
            bool(found["is_clean"]),
            int(found["since_ms"]),
            str(found["why"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def read_note(storage: Storage, folder: str) -> Note | None:
    """Returns the note in a folder, None if there is no readable one."""
    try:
        return decode(storage.read(f"{folder}/{FILE_NAME}"))
    except (FileNotFoundError, ValueError):
        return None


def merged(checkpointed: Checkpointed, note: Note | None) -> Checkpointed:
    """Returns the offsets of a log whose folder has its name back. If the checkpoint files lack them, ``note`` has
    them.

    The recovery point only comes from the checkpoint file: the log may have been truncated after the note was written.
    """
    if note is None:
        return checkpointed
    return Checkpointed(
        checkpointed.recovery_point,
        max(checkpointed.log_start_offset, note.checkpointed.log_start_offset),
        checkpointed.high_watermark or note.checkpointed.high_watermark,
        checkpointed.clean_offset or note.checkpointed.clean_offset,
    )


def find(storage: Storage, log_dir: str) -> Iterator[tuple[str, bytes, Note]]:
    """Yields folder, topic id (``ZERO_ID`` if unknown) and note of each stray in a log dir. Raises OSError.

    A stray that Kafka has left has no note, and was perhaps not closed in order.
    """
    for name in storage.folders(log_dir):
        named = parse_marked(name, STRAY_SUFFIX)
        if named is not None:
            folder = f"{log_dir}/{name}"
            note = read_note(storage, folder) or Note(named, Checkpointed(), False, storage.modified_ms(folder), "")
            yield folder, partition_metadata.read(storage, folder), note


class Stray(NamedTuple):
    """A log of this broker that belongs to no partition."""

    log_dir: LogDir
    folder: str
    topic_id: bytes
    note: Note
    size: int
    """The size of the log in bytes."""


class Strays:
    """The strays that one broker has set aside."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._found: dict[tuple[bytes, TopicPartition], list[Stray]] = {}
        self._waiting: dict[TopicPartition, tuple[Log, str]] = {}
        """Logs that are being set aside, or that could not be set aside yet, each with the reason."""
        self._lock = threading.Lock()
        """Guards both tables. No thread holds it during access to a disk."""

    def look_into(self, log_dir: LogDir) -> None:
        """Finds the strays in ``log_dir``. Raises OSError."""
        for folder, topic_id, note in find(self._storage, log_dir.path):
            self._add(Stray(log_dir, folder, topic_id, note, sum(self._storage.files(folder).values())))

    def _add(self, stray: Stray) -> None:
        with self._lock:
            self._found.setdefault((stray.topic_id, stray.note.topic_partition), []).append(stray)

    def _remove(self, stray: Stray) -> bool:
        """Removes a stray from the tables. Returns False if another thread has done so."""
        with self._lock:
            found = self._found.get((stray.topic_id, stray.note.topic_partition), [])
            is_there = stray in found
            if is_there:
                found.remove(stray)
            return is_there

    def online(self) -> list[Stray]:
        """Returns the strays in dirs that have not failed."""
        with self._lock:
            return [stray for found in self._found.values() for stray in found if not stray.log_dir.offline]

    def of(self, topic_partition: TopicPartition, topic_id: bytes) -> Stray | None:
        """Returns the newest stray of this topic's partition, None if there is none or if somebody has removed it."""
        with self._lock:
            found = list(self._found.get((topic_id, topic_partition), ()))
        online = (each for each in found if not each.log_dir.offline and self._storage.exists(each.folder))
        return max(online, key=lambda stray: stray.note.since_ms, default=None)

    def waiting(self, topic_partition: TopicPartition) -> Log | None:
        """Returns the log of that name that waits to be set aside; None if there is none or its disk has failed."""
        with self._lock:
            log, _ = self._waiting.get(topic_partition, (None, ""))
        return None if log is None or log.log_dir.offline else log

    def set_aside_waiting(self, now_ms: int, topic_partition: TopicPartition | None = None) -> None:
        """Sets all waiting logs aside, or only the given one; blocks. Raises KafkaStorageError."""
        with self._lock:
            waiting = list(self._waiting.items())
        for tp, (log, why) in waiting:
            if topic_partition in (None, tp):
                self._try(log, now_ms, why)

    def set_aside(self, log: Log, now_ms: int, why: str) -> Stray | None:
        """Closes a log that is no longer in the tables, and renames its folder. Returns None if its disk has failed.

        Raises KafkaStorageError. If descriptors are lacking, the log keeps its folder and stays in the checkpoint
        files, and ``set_aside_waiting`` tries again.
        """
        with self._lock:
            self._waiting[log.topic_partition] = (log, why)
        return self._try(log, now_ms, why)

    def _try(self, log: Log, now_ms: int, why: str) -> Stray | None:
        """Sets a waiting log aside. Returns None if its disk has failed, or if another thread has done it meanwhile."""
        tp, log_dir = log.topic_partition, log.log_dir
        with log.files.undisturbed():
            if self.waiting(tp) is not log:
                return None
            try:
                stray = self._rename(log, now_ms, why)
            except errors.KafkaStorageError:
                if not log_dir.offline:
                    log_dir.logs[tp] = log
                    log_dir.stale.discard(tp)
                raise
            self._add(stray)
            log_dir.logs.pop(tp, None)
            log_dir.stale.add(tp)
            with self._lock:
                del self._waiting[tp]
        return stray

    def _rename(self, log: Log, now_ms: int, why: str) -> Stray:
        log_dir, old = log.log_dir, log.folder
        folder = log_dir.file(marked_name(log.topic_partition, STRAY_SUFFIX))
        note = Note(log.topic_partition, *_closed(log), now_ms, why)
        with log_dir.failing(f"setting {old} aside"):
            self._storage.replace(f"{old}/{FILE_NAME}", note.encode())
            log_dir.rename(old, folder)
        log.relocate(log_dir, folder)
        log.files.abandon()
        return Stray(log_dir, folder, log.topic_id, note, log.size)

    def take_back(self, stray: Stray) -> str:
        """Gives the folder the name of its log again, and returns its path. Raises KafkaStorageError."""
        folder = stray.log_dir.file(str(stray.note.topic_partition))
        if not self._remove(stray):
            raise errors.KafkaStorageError(f"{stray.folder} is being taken back already")
        try:
            with stray.log_dir.failing(f"taking {stray.folder} back"):
                stray.log_dir.rename(stray.folder, folder)
        except errors.KafkaStorageError:
            self._add(stray)
            raise
        logger.warning("the stray %s is the log %s again, because its topic is in the metadata", stray.folder, folder)
        return folder


def _closed(log: Log) -> tuple[Checkpointed, bool]:
    """Closes a log; returns its offsets, and True if it was closed in order."""
    try:
        log.close()
        is_clean = True
    except errors.CorruptMessage as error:
        logger.error("%s cannot be closed in order: %s", log.folder, error)
        is_clean = False
    return Checkpointed(log.recovery_point, log.log_start_offset, log.high_watermark, log.clean_offset), is_clean
