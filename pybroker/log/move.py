"""Moves a log to another log dir while it is in use (AlterReplicaLogDirs, KIP-113).

``copy`` runs on a pool thread and copies segment files into ``<topic>-<partition>.<id>-future`` in
the target dir; appends go on. It is called until what is left is small, then ``finish``, on the
loop's thread where nothing is appended meanwhile, copies the rest, syncs, gives the folder its
real name and lets the log continue there; the target's checkpoints know of it before its name is
there, so that a crash does not bring back deleted records. The old folder goes last: a crash before the rename
leaves the old log, one after it two equal ones, of which the first dir's is used.

Whatever happens to the log during the copy shows in its segments: a segment that was cut or
removed is copied anew or dropped by ``finish``, since only files with the right length and content
count.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.log import leader_epochs, partition_metadata, producer_snapshot
from pybroker.log.log import Log
from pybroker.log.log_dir import LogDir
from pybroker.log.segment import Segment
from pybroker.log.storage import DataFile
from pyclient.protocol import errors

CHUNK_BYTES = 1 << 20
SMALL_REST_BYTES = 4 << 20


class Move:
    """One move that is going on."""

    def __init__(self, log: Log, target: LogDir, folder: str, on_end: Callable[[Move], None]) -> None:
        self.log = log
        self.target = target
        self.folder = folder
        """The ``-future`` folder."""
        self.cancelled = False
        self._on_end = on_end
        self._copied: dict[int, int] = {}
        self._truncations = log.truncations

    @property
    def copied_bytes(self) -> int:
        """Bytes in the target dir so far."""
        return sum(self._copied.values())

    @property
    def lag_bytes(self) -> int:
        """Bytes that are not there yet."""
        return max(0, self.log.size - self.copied_bytes)

    def copy(self) -> bool:
        """Copies what has been appended since the last call; blocks.

        True where little enough is left for ``finish``. Raises KafkaStorageError.
        """
        storage = self.target.storage
        try:
            storage.make_folder(self.folder)
            for segment in self.log.segments.snapshot():
                if self.cancelled:
                    return False
                self._copy_segment(segment)
        except OSError as error:
            if self.cancelled:  # the folder was removed meanwhile
                return False
            raise self.target.fail(error, f"copying {self.log.folder}") from error
        return self.lag_bytes <= SMALL_REST_BYTES

    def finish(self, now_ms: int) -> None:
        """Completes the move; blocks for the rest.

        Raises KafkaStorageError, after which the log is where it was.
        """
        with self.log.undisturbed():
            self._finish()

    def _finish(self) -> None:
        log, storage = self.log, self.target.storage
        old_dir, old_folder = log.log_dir, log.folder
        name = self.target.file(str(log.topic_partition))
        try:
            self._copy_rest()
            self.target.logs[log.topic_partition] = log
            self.target.write_checkpoints()
            storage.rename(self.folder, name)
            storage.sync_folder(self.target.path)
        except OSError as error:
            self.target.logs.pop(log.topic_partition, None)
            raise self.target.fail(error, f"moving {old_folder}") from error
        except errors.KafkaStorageError:
            self.target.logs.pop(log.topic_partition, None)
            raise
        log.release()
        log.relocate(self.target, name)
        del old_dir.logs[log.topic_partition]
        old_dir.stale.add(log.topic_partition)
        self._on_end(self)
        try:
            old_dir.storage.remove_folder(old_folder)
        except OSError as error:
            old_dir.fail(error, f"removing {old_folder}")

    def cancel(self) -> None:
        """Gives up; the copy is removed."""
        self.cancelled = True
        self._on_end(self)
        if self.target.storage.exists(self.folder):
            try:
                self.target.storage.remove_folder(self.folder)
            except OSError as error:
                self.target.fail(error, f"removing {self.folder}")

    def _copy_rest(self) -> None:
        log, storage = self.log, self.target.storage
        if log.truncations != self._truncations:
            storage.remove_folder(self.folder)
            storage.make_folder(self.folder)
            self._copied.clear()
        bases = {segment.base_offset for segment in log.segments}
        for base in self._copied.keys() - bases:
            storage.unlink(f"{self.folder}/{base:020d}.log")
        log.producers.take_snapshot(log.log_end_offset)
        log.active_segment.seal()
        log.save_lagging_files()
        for segment in log.segments:
            self._copy_segment(segment)
            storage.open(self._path(segment.path)).sync()
            for index in (segment.offset_index, segment.time_index, segment.txn_index):
                self._copy_small(index.path)
        for name in log.log_dir.storage.files(log.folder):
            if name.endswith(producer_snapshot.SUFFIX) or name in (
                leader_epochs.FILE_NAME,
                partition_metadata.FILE_NAME,
            ):
                self._copy_small(f"{log.folder}/{name}")
        storage.sync_folder(self.folder)

    def _copy_segment(self, segment: Segment) -> None:
        try:
            source = self.log.log_dir.storage.open(segment.path)
        except FileNotFoundError:
            return
        target = self.target.storage.open(self._path(segment.path), create=True)
        done, end = self._copied.get(segment.base_offset, 0), segment.size
        while done < end and not self.cancelled:
            data = self._read(source, done, end)
            target.write(data, done)
            done += len(data)
            self._copied[segment.base_offset] = done

    def _read(self, source: DataFile, position: int, end: int) -> bytes:
        """The next bytes of the log; a disk that cannot read them fails here, not the target."""
        try:
            data = source.read(min(CHUNK_BYTES, end - position), position)
        except OSError as error:
            raise self.log.log_dir.fail(error, f"reading {source.path}") from error
        if not data:
            raise errors.KafkaStorageError(f"{source.path} is shorter than {end} bytes")
        return data

    def _copy_small(self, path: str) -> None:
        if self.log.log_dir.storage.exists(path):
            self.target.storage.replace(self._path(path), self.log.log_dir.storage.read(path))

    def _path(self, path: str) -> str:
        return f"{self.folder}/{path.rpartition('/')[2]}"
