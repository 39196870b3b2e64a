"""The producers of a log. Detects duplicates, fences old epochs, knows ongoing transactions (KIP-98, KIP-360).

The rules:

* A batch whose sequences equal those of one of the producer's last five batches is a *duplicate*: it
  is not appended, but answered with its first offset. A duplicate of an older batch gets
  DUPLICATE_SEQUENCE_NUMBER. A gap, or a batch before the first known one, gets
  OUT_OF_ORDER_SEQUENCE_NUMBER. A new epoch begins at sequence 0. An unknown producer may begin
  anywhere, since its state may have been lost with deleted segments. With transactions v2 it must
  begin at 0, because its epoch is new.
* An epoch older than the newest seen gets INVALID_PRODUCER_EPOCH.
* A transaction is *ongoing* from its first batch to its marker, and then *unreplicated* until the high
  watermark has passed the marker. The first unstable offset is the lowest first offset of all ongoing
  and unreplicated transactions. It bounds the last stable offset.

* A producer expires when it has appended nothing for some time. The time is that of the append by the wall clock. The
  timestamp of a record may be years old, and the next retry would then be taken for a new batch. If there are
  too many producers, those that have been idle for longest are forgotten first (``idle_producers``).

The state is a function of the log. ``check`` changes nothing; ``append`` and ``append_marker`` are the only mutators. A
start replays what the newest sound snapshot lacks. A truncation of the log undoes changes (``producer_journal``).
Time is an argument.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cy.batch import Batch
from pybroker.log.files.storage import Storage
from pybroker.log.producers import idle_producers, producer_snapshot
from pybroker.log.producers.marker import ABORT, Marker
from pybroker.log.producers.producer_entry import NO_OFFSET, SEQUENCE_MASK, BatchMetadata, ProducerEntry, ProducerState
from pybroker.log.producers.producer_journal import ProducerJournal
from pybroker.log.producers.verification import Verifications
from pyclient.protocol import errors

DEFAULT_EXPIRATION_MS = 86_400_000
BUMPS_EPOCHS = 2
"""The transaction version from which on each transaction has an epoch of its own (KIP-890)."""
MAX_EPOCH = 0x7FFF

logger = logging.getLogger(__name__)


class CompletedTransaction(NamedTuple):
    """A transaction that ended with the batch just appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStates:
    """The states of all producers of one log."""

    __slots__ = (
        "_journal",
        "_known",
        "_limit",
        "_ongoing",
        "_packed",
        "_snapshots",
        "_storage",
        "_unreplicated",
        "end_offset",
        "folder",
        "verifications",
    )

    def __init__(self, storage: Storage, folder: str, snapshots: Iterable[int] = ()) -> None:
        self._storage = storage
        self.folder = folder
        self._known: dict[int, ProducerEntry] | None = None
        self._packed = b""
        """The producers in the form of a snapshot while ``_known`` is None; empty if there are none."""
        self._ongoing: dict[int, int] = {}
        """The producer ids of ongoing transactions by first offset, in that order."""
        self._unreplicated: dict[int, int] = {}
        """The markers' offsets of ended transactions that are not replicated, by first offset."""
        self._limit = idle_producers.MAX_PRODUCERS
        """How many producers there may be. Before one more is added, some are forgotten."""
        self._journal = ProducerJournal()
        self._snapshots = sorted(snapshots)
        self.end_offset = 0
        """The log end that this state covers."""
        self.verifications = Verifications()
        """Producers whose first batch waits for the coordinator. They are not part of the log's state."""

    @property
    def _producers(self) -> dict[int, ProducerEntry]:
        known = self._known
        return self._unpack() if known is None else known

    def _unpack(self) -> dict[int, ProducerEntry]:
        entries = producer_snapshot.decode(self._packed) if self._packed else []
        self._known = {entry.producer_id: entry for entry in entries}
        self._packed = b""
        return self._known

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> list[ProducerEntry]:
        """Returns the known producers (DescribeProducers)."""
        return list(self._producers.values())

    def ids(self) -> list[int]:
        """Returns the ids of the known producers."""
        return producer_snapshot.ids(self._packed) if self._known is None else list(self._known)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Returns the state of one producer."""
        return self._producers.get(producer_id)

    def is_ongoing(self, producer_id: int, epoch: int) -> bool:
        """Returns True if the producer has an open transaction in that epoch."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset != NO_OFFSET and entry.epoch == epoch

    def is_fenced(self, producer_id: int, epoch: int) -> bool:
        """Returns True if a newer epoch of the producer has been seen."""
        entry = self._producers.get(producer_id)
        return entry is not None and epoch < entry.epoch

    # Decisions

    def check(self, batch: Batch, transaction_version: int = 0, *, with_sequence: bool) -> BatchMetadata | None:
        """Checks that a data batch may be appended. Returns the earlier batch if it is a duplicate, else None.

        ``with_sequence`` is False for batches of the broker's own coordinators, which have none.
        From ``transaction_version`` 2 on an unknown producer begins at sequence 0: its epoch is new.
        Raises InvalidProducerEpoch, OutOfOrderSequenceNumber, DuplicateSequenceNumber,
        InvalidTxnState.
        """
        entry = self._producers.get(batch.producer_id)
        if with_sequence and self.verifications:
            self.verifications.check_sequence(batch.producer_id, batch.producer_epoch, batch.base_sequence)
        if entry is None:
            if with_sequence and transaction_version >= BUMPS_EPOCHS and batch.base_sequence != 0:
                raise errors.OutOfOrderSequenceNumber(
                    f"producer {batch.producer_id} is unknown and begins at sequence {batch.base_sequence}, not at 0"
                )
            return None
        epoch = batch.producer_epoch
        if epoch < entry.epoch:
            raise _old_epoch(entry, epoch)
        if with_sequence and epoch > entry.epoch and batch.base_sequence != 0:
            raise errors.OutOfOrderSequenceNumber(
                f"producer {entry.producer_id} begins epoch {epoch} at sequence {batch.base_sequence}, not at 0"
            )
        if with_sequence and epoch == entry.epoch and batch.base_sequence != entry.next_sequence:
            return _duplicate(entry, batch)
        if entry.transaction_first_offset != NO_OFFSET and not batch.is_transactional:
            raise errors.InvalidTxnState(f"producer {entry.producer_id} has an open transaction")
        return None

    def check_marker(self, batch: Batch, marker: Marker | None, transaction_version: int) -> None:
        """Checks that a marker (None: another control batch) may be appended.

        Its epoch must not be older than the newest seen; from transaction version 2 on it must be
        newer, except for a resent marker, which finds no transaction (KIP-1228).
        Raises InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        entry = self._producers.get(batch.producer_id)
        if entry is None or marker is None:
            return
        epoch = batch.producer_epoch
        is_late = epoch == entry.epoch < MAX_EPOCH and entry.transaction_first_offset != NO_OFFSET
        if epoch < entry.epoch or (is_late and transaction_version >= BUMPS_EPOCHS):
            raise _old_epoch(entry, epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise errors.TransactionCoordinatorFenced(
                f"the marker has coordinator epoch {marker.coordinator_epoch}, the newest is {entry.coordinator_epoch}"
            )

    # Changes

    def append(self, batch: Batch, first_offset: int, last_offset: int, max_timestamp: int, seen_ms: int) -> None:
        """Adds a data batch that was appended at ``seen_ms``; if it was read from the log, at that time or before."""
        producer_id = batch.producer_id
        entry = self._producers.get(producer_id)
        begins = batch.is_transactional and (entry is None or entry.transaction_first_offset == NO_OFFSET)
        if begins or entry is None or entry.epoch != batch.producer_epoch or not entry.batches:
            entry = self._entry(producer_id, batch.producer_epoch, first_offset)
        else:
            self._journal.note(first_offset, producer_id, entry.batches[-1])
        entry.add(_metadata(batch, first_offset, last_offset, max_timestamp), seen_ms)
        if begins:
            entry.transaction_first_offset = first_offset
            self._ongoing[first_offset] = batch.producer_id
            self.verifications.on_data(batch.producer_id)
        self.end_offset = last_offset + 1

    def recall(self, batches: Iterable[Batch]) -> None:
        """Adds data batches of the log that precede the known ones, so that their duplicates are detected."""
        earlier: dict[int, list[BatchMetadata]] = {}
        for batch in batches:
            entry = self._producers.get(batch.producer_id)
            if entry is not None and entry.epoch == batch.producer_epoch:
                known = earlier.setdefault(batch.producer_id, [])
                known.append(_metadata(batch, batch.base_offset, batch.last_offset, batch.max_timestamp))
        for producer_id, known in earlier.items():
            self._producers[producer_id].recall(known)

    def append_marker(
        self, batch: Batch, marker: Marker, offset: int, timestamp: int, seen_ms: int
    ) -> CompletedTransaction | None:
        """Adds a marker that was appended at ``offset``, or read from the log.

        Returns the transaction that it ended, None if there was none.
        """
        entry = self._entry(batch.producer_id, batch.producer_epoch, offset)
        entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
        entry.last_timestamp = timestamp
        entry.seen_ms = seen_ms
        first_offset = entry.transaction_first_offset
        entry.transaction_first_offset = NO_OFFSET
        self.end_offset = offset + 1
        self.verifications.on_marker(batch.producer_id, batch.producer_epoch)
        if first_offset == NO_OFFSET:
            return None
        return CompletedTransaction(batch.producer_id, first_offset, offset, marker.kind == ABORT)

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Returns the last stable offset once ``completed`` is replicated.

        This is the start of the next ongoing transaction, or the end of ``completed``.
        """
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Notes that the transaction is in the transaction index.

        It stays unstable until the high watermark passes its marker.
        """
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark(self, offset: int) -> None:
        """Notes the high watermark: markers below it are replicated, and nothing below it will be truncated."""
        if self._journal:
            self._journal.forget_below(offset)
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= offset}

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is ongoing, or not replicated; None if there is none."""
        if not self._ongoing and not self._unreplicated:
            return None
        ongoing = next(iter(self._ongoing), None)
        if not self._unreplicated:
            return ongoing
        decided = min(self._unreplicated)
        return decided if ongoing is None or decided < ongoing else ongoing

    def remove_expired(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> int:
        """Removes producers that have appended nothing for ``expiration_ms`` and have no open transaction.

        Returns how many it has removed.
        """
        known = self._known or {}  # producers that were not used since the start stay packed
        expired = [
            entry.producer_id
            for entry in known.values()
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.seen_ms >= expiration_ms
        ]
        for producer_id in expired:
            del known[producer_id]
        if len(known) > idle_producers.MAX_PRODUCERS:
            self._make_room()
        else:
            self._limit = idle_producers.MAX_PRODUCERS
        self.verifications.remove_expired(now_ms, expiration_ms)
        return len(expired)

    def _make_room(self) -> None:
        """Forgets the producers that have been idle for longest, because there are too many."""
        count = len(self._producers)
        for producer_id in idle_producers.longest_idle(self._producers.values(), count):
            del self._producers[producer_id]
        left = len(self._producers)
        self._limit = idle_producers.limit_after(left)
        text = "%s has too many idempotent producers: of %d, the %d that were idle for longest are forgotten"
        logger.warning(text, self.folder, count, count - left)

    def undo_to(self, offset: int) -> bool:
        """Undoes all changes by batches from ``offset`` on, to where the log was truncated. Returns False if the
        journal does not reach back that far.
        """
        if offset < self._journal.start:
            return False
        self.remove_snapshots(lambda at: at > offset)
        for _, producer_id, before in self._journal.take_back(offset):
            self._take_back(producer_id, before)
        ongoing = sorted(self._ongoing.items())
        self._ongoing = {first: producer_id for first, producer_id in ongoing if first < offset}
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last < offset}
        self.verifications.clear()
        self.end_offset = offset
        return True

    def can_undo_to(self, offset: int) -> bool:
        """Returns True if the journal reaches back to ``offset``, so that a truncation to it reads no batches."""
        return offset >= self._journal.start

    def before(self, offset: int) -> ProducerStates:
        """Returns an empty state with the snapshots up to ``offset``, none of which it removes."""
        found = ProducerStates(self._storage, self.folder, [at for at in self._snapshots if at <= offset])
        found._unreplicated = {first: last for first, last in self._unreplicated.items() if last < offset}
        return found

    def become(self, other: ProducerStates) -> None:
        """Takes over the state of ``other``, and removes snapshots that ``other`` does not have. Raises OSError."""
        known = set(other._snapshots)
        self.remove_snapshots(lambda at: at not in known)
        self._known, self._ongoing, self._unreplicated = other._producers, other._ongoing, other._unreplicated
        self._journal, self._snapshots, self._limit = other._journal, other._snapshots, other._limit
        self.verifications.clear()
        self.end_offset = other.end_offset

    def _take_back(self, producer_id: int, before: BatchMetadata | ProducerState | None) -> None:
        entry = self._producers.get(producer_id)
        if isinstance(before, BatchMetadata):
            if entry is not None:
                entry.take_back(before)
        elif before is None:
            self._producers.pop(producer_id, None)
        else:
            entry = self._producers.setdefault(producer_id, ProducerEntry(producer_id, before.epoch))
            self._ongoing.pop(entry.transaction_first_offset, None)
            entry.restore(before)
            if before.transaction_first_offset != NO_OFFSET:
                self._ongoing[before.transaction_first_offset] = producer_id

    def _entry(self, producer_id: int, epoch: int, offset: int) -> ProducerEntry:
        entry = self._producers.get(producer_id)
        self._journal.note(offset, producer_id, None if entry is None else entry.state())
        if entry is None:
            if len(self._producers) >= self._limit:
                self._make_room()
            entry = self._producers[producer_id] = ProducerEntry(producer_id, epoch)
        elif epoch > entry.epoch:
            entry.enter_epoch(epoch)
        return entry

    # Snapshots

    def clear(self, end_offset: int) -> None:
        """Forgets all producers; the log ends at ``end_offset``."""
        self._known, self._packed = None, b""
        self._ongoing.clear()
        self._unreplicated.clear()
        self.verifications.clear()
        self._journal.begin_at(end_offset)
        self.end_offset = end_offset

    def load(self, start_offset: int, end_offset: int, reach: int | None = None) -> int:
        """Reads the newest sound snapshot at or before ``reach``, or if there is none the first one behind it.

        ``reach`` is by default ``end_offset``, the log's end. Returns the offset from which the log must be
        replayed. A snapshot does not tell which markers are replicated. Markers that are known as unreplicated stay so;
        at a start, markers before the snapshot count as replicated, as in Kafka.
        """
        unreplicated = {first: last for first, last in self._unreplicated.items() if last < end_offset}
        self.clear(start_offset)
        self._unreplicated = unreplicated
        self.remove_snapshots(lambda offset: offset > end_offset)
        known = [offset for offset in self._snapshots if offset >= start_offset]
        early = end_offset if reach is None else reach
        for offset in sorted(known, key=lambda offset: (offset > early, abs(offset - early))):
            if self._load_snapshot(offset):
                self._journal.begin_at(offset)
                self.end_offset = offset
                return offset
        return start_offset

    def packed(self) -> bytes:
        """Returns the producers in the form of a snapshot, empty if there are none."""
        if self._known is None:
            return self._packed
        return producer_snapshot.encode(self._known.values()) if self._known else b""

    def resume(self, packed: bytes, end_offset: int) -> None:
        """Takes over the producers that were ``packed`` at the log's end.

        They are unpacked when they are first used, or at once if one has an open transaction.
        """
        self.clear(end_offset)
        self._packed = packed
        if producer_snapshot.has_ongoing(packed):
            self._find_ongoing(list(self._producers.values()))

    def take_snapshot(self, offset: int) -> None:
        """Writes a snapshot at ``offset``, the log's end, unless there is one. Raises OSError."""
        if offset not in self._snapshots:
            self._storage.write(self._path(offset), producer_snapshot.encode(self._producers.values()))
            self._snapshots.append(offset)
            self._snapshots.sort()

    def remove_snapshots(self, condition: Callable[[int], bool]) -> None:
        """Removes the snapshot files whose offset meets the condition. Raises OSError."""
        gone = set()
        try:
            for offset in filter(condition, self._snapshots):
                self._storage.unlink(self._path(offset))
                gone.add(offset)
        finally:
            if gone:
                self._snapshots = [offset for offset in self._snapshots if offset not in gone]

    def _load_snapshot(self, offset: int) -> bool:
        try:
            entries = producer_snapshot.decode(self._storage.read(self._path(offset)))
        except (FileNotFoundError, producer_snapshot.CorruptSnapshot) as error:
            logger.warning("%s cannot be used, and the log is read instead: %s", self._path(offset), error)
            self.remove_snapshots(lambda other: other == offset)
            return False
        self._known = {entry.producer_id: entry for entry in entries}
        self._find_ongoing(entries)
        if len(entries) > idle_producers.MAX_PRODUCERS:
            self._make_room()
        return True

    def _find_ongoing(self, entries: list[ProducerEntry]) -> None:
        ongoing = [entry for entry in entries if entry.transaction_first_offset != NO_OFFSET]
        ongoing.sort(key=lambda entry: entry.transaction_first_offset)
        self._ongoing = {entry.transaction_first_offset: entry.producer_id for entry in ongoing}

    def _path(self, offset: int) -> str:
        return f"{self.folder}/{producer_snapshot.file_name(offset)}"


def _metadata(batch: Batch, first_offset: int, last_offset: int, max_timestamp: int) -> BatchMetadata:
    return BatchMetadata(batch.last_sequence, last_offset, last_offset - first_offset, max_timestamp)


def _old_epoch(entry: ProducerEntry, epoch: int) -> errors.InvalidProducerEpoch:
    return errors.InvalidProducerEpoch(f"producer {entry.producer_id} is in epoch {entry.epoch}, not {epoch}")


def _duplicate(entry: ProducerEntry, batch: Batch) -> BatchMetadata:
    """Returns the earlier batch with the same sequences, for a batch whose sequences are not the next ones.

    Raises DuplicateSequenceNumber if that batch is too old to be known, OutOfOrderSequenceNumber for a gap.
    """
    for earlier in entry.batches:
        if (earlier.first_sequence, earlier.last_sequence) == (
            batch.base_sequence,
            batch.last_sequence,
        ):
            return earlier
    text = f"its batch begins at sequence {batch.base_sequence}, and {entry.next_sequence} is expected"
    behind = (entry.last_sequence - batch.base_sequence) & SEQUENCE_MASK
    if batch.last_offset_delta <= behind < entry.appended:
        raise errors.DuplicateSequenceNumber(f"producer {entry.producer_id}: {text}")
    raise errors.OutOfOrderSequenceNumber(f"producer {entry.producer_id}: {text}")
