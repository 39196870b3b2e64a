"""Compacts the logs of a broker, the dirtiest first (Kafka's LogCleaner and LogCleanerManager).

A round has three steps. The loop's thread chooses and claims the dirtiest log. A pool thread reads its keys and
rewrites its segments. The loop's thread swaps each new segment in, if the log still has the original segments, was not
truncated, is not moving, and is still compacted by this broker. Otherwise the round ends there, and the log waits for
another round. So retention, truncation, deletion and moves never wait for a compaction.

Before the first swap, all sealed segments are synced. Otherwise a power cut could lose a record whose older version
compaction has removed. After the last swap the folder is synced, and then ``cleaner-offset-checkpoint`` is written.
After a crash in between, a later round only repeats the work.

Errors: a disk error takes the log dir offline, as everywhere; a full disk only postpones compaction. Any other failure
(damage, a batch larger than the map) marks the log *uncleanable*. This is logged once, and the log is left alone until
the broker restarts or a setting of the log or the cleaner changes. Data that were read during a truncation of the log
may look damaged, and are not taken for a damage.

Thread-safety: ``clean_next`` may run on several threads at once; call everything else on the loop's thread.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from cy.counted import counted
from pybroker.clock import Clock
from pybroker.config.log_config import LogConfig
from pybroker.log.compaction.cleanable import Cleanable, cleanable, groups
from pybroker.log.compaction.compaction import Compaction, Resources, Stats
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.interruption import Interrupted, Interruption
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.segment.cleaned_segment import CleanedSegment
from pybroker.log.segment.segment import Segment
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

T = TypeVar("T")
LOGS_PER_TURN = 200
SEGMENTS_PER_TURN = 100
BUSY_S = 0.005
FULL = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM}

logger = logging.getLogger(__name__)


class OnLoop(Protocol):
    """A function that runs ``work`` on the loop's thread, and returns its result or raises its error."""

    def __call__(self, work: Callable[[], T], /) -> T: ...


class Identity(NamedTuple):
    """The facts about a log that must not change while it is compacted."""

    truncations: int
    folder: str


class Claimed(NamedTuple):
    """The part of a log that one thread compacts, and the log's identity when it was chosen."""

    todo: Cleanable
    identity: Identity


class Refused(NamedTuple):
    """A log that could not be compacted, and the settings with which compaction was tried."""

    log: Log
    config: LogConfig
    resources: Resources


class LogChanged(Exception):
    """Raised if the log has changed since its compaction began. A later round repeats it."""


class Cleaner:
    """Compacts ``logs``. ``on_loop`` raises Interrupted if the loop has ended."""

    def __init__(self, logs: LogManager, clock: Clock, throttle: Throttle, on_loop: OnLoop) -> None:
        self._logs = logs
        self._clock = clock
        self._throttle = throttle
        self._on_loop = on_loop
        self._claimed: dict[TopicPartition, Log] = {}
        self._refused: dict[TopicPartition, Refused] = {}
        self._resources = Resources()

    @property
    def uncleanable(self) -> set[TopicPartition]:
        """The logs that are not compacted, because an earlier attempt failed."""
        return {tp for tp, refused in self._refused.items() if self._logs.get(tp) is refused.log}

    def clean_next(self, resources: Resources, interruption: Interruption) -> bool:
        """Compacts the dirtiest log that is due; blocks. Returns False if no log was due, or if the compaction failed.

        Raises Interrupted.
        """
        self._resources = resources
        claimed = self._choose(interruption)
        if claimed is None:
            return False
        try:
            return self._clean_guarded(claimed, resources, interruption)
        finally:
            self._on_loop(lambda: self._claimed.pop(claimed.todo.log.topic_partition, None))

    # Choosing

    def _choose(self, interruption: Interruption) -> Claimed | None:
        """Claims the dirtiest log that is due; looks at some logs in each turn of the loop."""
        rest = self._on_loop(lambda: iter(self._logs))
        best: Cleanable | None = None
        while logs := list(islice(rest, LOGS_PER_TURN)):
            interruption.check()
            best = self._on_loop(partial(self._dirtiest, logs, best))
        return None if best is None else self._on_loop(partial(self._claim, best.log))

    def _dirtiest(self, logs: list[Log], best: Cleanable | None) -> Cleanable | None:
        for log in logs:
            todo = self._due(log)
            if todo is not None and (best is None or todo.dirty_ratio > best.dirty_ratio):
                best = todo
        return best

    def _due(self, log: Log) -> Cleanable | None:
        """Returns the part of the log to compact now, None if nothing is due. Failures are noted, not raised."""
        if not self._may_be_cleaned(log):
            return None
        try:
            todo = cleanable(log, self._clock.now_ms())
            return todo if todo is not None and todo.is_due else None
        except OSError as error:
            log.log_dir.fail(error, f"looking for what to compact in {log.folder}")
        except (ValueError, errors.KafkaError) as error:
            self._give_up(log, error)
        return None

    def _may_be_cleaned(self, log: Log) -> bool:
        tp = log.topic_partition
        return (
            log.config.is_compacted
            and self._logs.get(tp) is log
            and not log.log_dir.offline
            and not log.files.is_deleted
            and self._logs.moving_to(tp) is None
            and tp not in self._claimed
            and self._refused.get(tp) != Refused(log, log.config, self._resources)
        )

    def _claim(self, log: Log) -> Claimed | None:
        """Claims the log if it is still due: it may have been truncated since the last check."""
        todo = self._due(log)
        if todo is None:
            return None
        self._claimed[log.topic_partition] = log
        return Claimed(todo, _identity(log))

    # Compacting

    def _clean_guarded(self, claimed: Claimed, resources: Resources, interruption: Interruption) -> bool:
        log = claimed.todo.log
        try:
            self._clean(claimed, resources, interruption)
            return True
        except Interrupted:
            raise
        except LogChanged:
            logger.info("the compaction of %s is repeated later: the log has changed", log.topic_partition)
        except OSError as error:
            self._on_disk_error(log, error)
        except errors.KafkaStorageError as error:
            logger.error("%s cannot be compacted: %s", log.topic_partition, error)
        except MemoryError:
            logger.error("%s cannot be compacted: there is no memory for the offset map", log.topic_partition)
        except Exception as error:
            self._on_loop(partial(self._give_up_unchanged, log, claimed.identity, error))
        return False

    def _clean(self, claimed: Claimed, resources: Resources, interruption: Interruption) -> None:
        todo, identity = claimed
        log = todo.log
        began_s = time.monotonic()
        aborted = self._aborted_transactions(log)
        work = Compaction(todo, resources, self._throttle, interruption, aborted=aborted, now_ms=self._clock.now_ms())
        work.read_keys()
        log.flush_sealed()  # a newer record is on the disk before the one that it supersedes is removed
        for group in self._on_loop(lambda: groups(todo, work.end)):
            producers = self._on_loop(lambda: self._unchanged(log, identity).producers.active())
            cleaned = work.rewrite(group, producers)
            self._swap(log, group, cleaned, identity, interruption)
        self._on_loop(lambda: self._set_clean_offset(log, work.end, identity))
        log.log_dir.checkpoint_clean_offsets()
        _tell(todo, work.end, work.stats, time.monotonic() - began_s)

    def _aborted_transactions(self, log: Log) -> bytes:
        """Returns the entries of all transaction indexes, since a marker may be in a later segment than its records.

        It reads the entries from memory: some may not be in their files yet.
        """
        segments = self._on_loop(log.segments.snapshot)
        found = []
        for start in range(0, len(segments), SEGMENTS_PER_TURN):
            some = segments[start : start + SEGMENTS_PER_TURN]
            found += self._on_loop(partial(_aborted_in, some))
        return b"".join(found)

    def _unchanged(self, log: Log, identity: Identity) -> Log:
        """Raises LogChanged unless the log may still be compacted."""
        tp = log.topic_partition
        log.log_dir.check_online()
        if _identity(log) != identity or log.files.is_deleted or self._logs.get(tp) is not log:
            raise LogChanged
        if self._logs.moving_to(tp) is not None or not log.config.is_compacted:
            raise LogChanged
        return log

    def _swap(
        self,
        log: Log,
        group: list[Segment],
        cleaned: CleanedSegment,
        identity: Identity,
        interruption: Interruption,
    ) -> None:
        """Replaces the original segments with the new one, durably. Raises LogChanged, OSError."""

        def swap() -> bool:
            if not self._unchanged(log, identity).segments.has_run(group):
                raise LogChanged
            return log.files.replace_segments(group, cleaned)

        try:
            while not self._on_loop(swap):
                interruption.wait(BUSY_S)
        except BaseException:
            cleaned.remove()
            raise
        log.log_dir.storage.sync_folder(identity.folder)

    def _set_clean_offset(self, log: Log, offset: int, identity: Identity) -> None:
        self._unchanged(log, identity).clean_offset = offset

    # What goes wrong

    def _on_disk_error(self, log: Log, error: OSError) -> None:
        """Handles an OSError: takes the log dir offline, unless the log was deleted or moved, or the disk is full."""
        if self._on_loop(lambda: self._logs.get(log.topic_partition) is not log or log.files.is_deleted):
            logger.info("the compaction of %s has ended: the log was deleted or moved", log.topic_partition)
        elif error.errno in FULL:
            logger.warning("the compaction of %s is postponed: %s", log.topic_partition, error)
        elif isinstance(error, FileNotFoundError):  # retention took a segment that was to be read
            logger.info("the compaction of %s is repeated later: %s", log.topic_partition, error)
        else:
            log.log_dir.fail(error, f"compacting {log.folder}")

    def _give_up_unchanged(self, log: Log, identity: Identity, error: Exception) -> None:
        """Marks the log uncleanable, unless it has changed: a truncation or rewrite can make bytes look damaged."""
        try:
            self._unchanged(log, identity)
        except (LogChanged, errors.KafkaError):
            logger.info("the compaction of %s is repeated later: %s", log.topic_partition, error)
        else:
            self._give_up(log, error)

    def _give_up(self, log: Log, error: Exception) -> None:
        trace = None if isinstance(error, (ValueError, errors.KafkaError)) else error
        text = "%s cannot be compacted, and is not tried again before a restart or a change of its settings: %s"
        logger.error(text, log.topic_partition, error, exc_info=trace)
        self._refused = {tp: other for tp, other in self._refused.items() if self._logs.get(tp) is other.log}
        self._refused[log.topic_partition] = Refused(log, log.config, self._resources)


def _aborted_in(segments: list[Segment]) -> list[bytes]:
    return [bytes(segment.txn_index.entries) for segment in segments]


def _identity(log: Log) -> Identity:
    return Identity(log.files.durability.truncations, log.folder)


def _tell(todo: Cleanable, end: int, stats: Stats, seconds: float) -> None:
    logger.info(
        "%s compacted up to offset %d: %.1f MB became %.1f MB, %d of %s stay, %s, %.1f MB/s",
        todo.log.topic_partition,
        end,
        todo.total_bytes / 1e6,
        stats.written_bytes / 1e6,
        stats.kept_records,
        counted(stats.read_records, "record"),
        counted(stats.keys, "key"),
        todo.total_bytes / 1e6 / max(seconds, 1e-9),
    )
