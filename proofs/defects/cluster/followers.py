"""Defects of followers: how they truncate and append, and what they have after a crash."""

from __future__ import annotations

from typing import Any

from proofs.defects import Patch
from proofs.defects.suites import LOGS, in_histories, in_trial
from pybroker.log.durability import Durability
from pybroker.log.files.leader_epochs import EpochEnd
from pybroker.log.log import Log
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.log.startup import recovery
from pybroker.replication.following import follower
from pybroker.replication.following.follower import Followed
from pybroker.replication.partition import Partition

DIFFER = ("replicas differ", "stuck", "lost")


@in_histories("crashes", *LOGS)
def a_follower_begins_at_its_high_watermark() -> list[Patch]:
    """A follower truncates its log to its high watermark when it begins to follow (before KIP-101)."""
    begin = Followed.__init__

    def follow(self: Followed, partition: Partition, wall_ms: int) -> None:
        begin(self, partition, wall_ms)
        log = partition.log
        if log.log_end_offset > log.high_watermark:
            log.truncate_to(log.high_watermark, wall_ms)

    return [(Followed, "__init__", follow), *sees_no_divergence()]


@in_histories("diverging logs", *LOGS)
def asks_for_its_own_last_epoch_only() -> list[Patch]:
    """The leader's answer does not say which epoch the offset is for (KIP-279)."""
    take = Followed.take

    def divergence(self: Partition, wanted: Any) -> EpochEnd | None:
        end = self.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        return end if end.end_offset < wanted.fetch_offset else None

    def take_or_cut(self: Followed, answer: Any, wall_ms: int) -> bool:
        if answer.diverging_epoch is None:
            return take(self, answer, wall_ms)
        log = self.partition.log
        log.truncate_to(min(answer.diverging_epoch.end_offset, log.log_end_offset), wall_ms)
        return True

    return [(Partition, "_divergence", divergence), (Followed, "take", take_or_cut)]


@in_trial("frozen followers", *DIFFER)
@in_histories("crashes", *LOGS)
def sees_no_divergence() -> list[Patch]:
    """A leader does not report that logs diverge."""
    return [(Partition, "_divergence", lambda *_: None)]


@in_trial("frozen followers", *DIFFER)
def never_truncates() -> list[Patch]:
    """A follower ignores diverging logs."""
    return [(Followed, "_cut_to", lambda self, offset, wall_ms: False)]


@in_histories("diverging logs", *LOGS, rarely=True)
def starts_over() -> list[Patch]:
    """A follower truncates a diverging log below the common part."""
    return [(follower, "agreed_end", lambda log, leader: 0)]


@in_trial("order", "replicas differ")
def writes_something_else_as_a_follower() -> list[Patch]:
    """A follower changes the last byte of what it appends."""
    append = Log._append_run

    def append_changed(self: Log, run: Any, data: Any, now_ms: int) -> None:
        changed = bytearray(data)
        changed[-1] ^= 1
        append(self, run, memoryview(changed), now_ms)

    return [(Log, "_append_run", append_changed)]


@in_trial("retry", "duplicate", "stuck")
def forgets_producers_as_a_follower() -> list[Patch]:
    """A follower that becomes leader knows no producer's sequence numbers."""
    append = Log.append_as_follower

    def append_and_forget(self: Log, records: Any, leader_epoch: int, now_ms: int) -> Any:
        info = append(self, records, leader_epoch, now_ms)
        self.producers.clear(self.log_end_offset)
        return info

    return [(Log, "append_as_follower", append_and_forget)]


# After a crash


@in_trial("no power", "lost")
def recovers_to_the_high_watermark() -> list[Patch]:
    """A replica truncates its log to the high watermark when it starts (before KIP-101)."""
    load = recovery.load

    def load_and_cut(*arguments: Any, **options: Any) -> Log:
        log = load(*arguments, **options)
        log.truncate_to(log.high_watermark, 0)
        return log

    return [(recovery, "load", load_and_cut)]


@in_histories("crashes", *LOGS)
def recovers_to_the_checkpoint() -> list[Patch]:
    """After a kill, records that were not synced are lost."""
    load = recovery._Loader.load

    def load_and_cut(self: Any) -> Log:
        log = load(self)
        if not self.clean:
            log.truncate_to(self.checkpointed.recovery_point, self.now_ms)
        return log

    return [(recovery._Loader, "load", load_and_cut)]


@in_histories("synced power", *LOGS)
def flush_acks_syncs_nothing() -> list[Patch]:
    """A power cut loses acknowledged records."""
    return [(SegmentFiles, "sync", lambda *_, **__: None)]


@in_histories("synced cuts", "synced")
def what_is_cut_off_stays_synced() -> list[Patch]:
    """Later records count as synced before they are."""
    return [(Durability, "lower", lambda *_: None)]
