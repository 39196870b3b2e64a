"""Defects of a leader's appends: batches are written twice, never, or in the wrong order."""

from __future__ import annotations

from typing import Any

from proofs.defects import Patch
from proofs.defects.suites import LOGS, TWICE, in_histories, in_trial
from pybroker.log.appending import AppendInfo
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.replication.partition import Partition


@in_trial("retry", "duplicate")
@in_histories("crashes", *LOGS, *TWICE)
def knows_no_duplicates() -> list[Patch]:
    """The leader appends a retried batch again."""
    return [(ProducerStates, "check", lambda *_, **__: None)]


def _is_internal(partition: Partition) -> bool:
    return partition.topic_partition.topic.startswith("__")


@in_trial("order", "duplicate", "inconsistent offset")
def writes_twice() -> list[Patch]:
    """The leader writes one batch in seven twice."""
    append = Partition.append

    def append_again(self: Partition, records: Any, *arguments: Any, **options: Any) -> Any:
        again = bytes(records)
        info = append(self, records, *arguments, **options)
        if not _is_internal(self) and info.first_offset % 7 == 3:
            append(self, again, *arguments, **options)
        return info

    return [(Partition, "append", append_again)]


@in_trial("order", "lost")
def drops_a_batch() -> list[Patch]:
    """The leader truncates the sixth batch of a process after its append."""
    append = Partition.append
    turns = iter(range(1 << 60))

    def append_most(self: Partition, records: Any, *arguments: Any, **options: Any) -> Any:
        info = append(self, records, *arguments, **options)
        if not _is_internal(self) and next(turns) == 5:
            self.log.truncate_to(info.first_offset, 0)
        return info

    return [(Partition, "append", append_most)]


@in_trial("order", "inconsistent offset")
def tells_a_wrong_offset() -> list[Patch]:
    """The leader answers with the offset of the next record."""
    append = Partition.append

    def append_and_lie(self: Partition, *arguments: Any, **options: Any) -> Any:
        info = append(self, *arguments, **options)
        info.first_offset += 1
        return info

    return [(Partition, "append", append_and_lie)]


@in_trial("order", "reordered")
def lets_a_batch_overtake() -> list[Patch]:
    """The leader writes the sixth batch of a process after the seventh."""
    append = Partition.append
    turns = iter(range(1 << 60))
    held: list[bytes] = []

    def append_later(self: Partition, records: Any, *arguments: Any, **options: Any) -> Any:
        if _is_internal(self):
            return append(self, records, *arguments, **options)
        if next(turns) == 5:  # the trial's batches have two records each
            held.append(bytes(records))
            end = self.log.log_end_offset
            return AppendInfo(end + 2, end + 3, -1, 0)
        info = append(self, records, *arguments, **options)
        if held:
            append(self, held.pop(), *arguments, **options)
        return info

    return [(Partition, "append", append_later)]
