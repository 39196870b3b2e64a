"""Errors that only a consumer meets."""

from __future__ import annotations

from typing import Any

from pyclient.errors import ClientError
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.protocol.errors import OffsetOutOfRange
from pyclient.topic_partition import TopicPartition


class IllegalState(ClientError, ValueError):
    """The consumer cannot do this as it is: the partition is not assigned, there is no group …"""

    name = "ILLEGAL_STATE"


class NoOffsetForPartition(ClientError):
    """No position, and auto.offset.reset=none."""

    name = "NO_OFFSET_FOR_PARTITION"


class LogTruncation(OffsetOutOfRange):
    """Records that were read are gone from the log, others may stand at their offsets (KIP-320), and
    auto.offset.reset=none. Each poll raises it until ``seek``: to ``divergent``, the first offset whose
    record may be another than was read (None: not known), or elsewhere.
    """

    name = "LOG_TRUNCATION"

    def __init__(self, partition: TopicPartition, offset: int, divergent: OffsetAndMetadata | None) -> None:
        where = "at an unknown offset" if divergent is None else f"at offset {divergent.offset}"
        super().__init__(f"{partition}: what was read before offset {offset} parts {where} from the leader's log")
        self.partition, self.offset, self.divergent = partition, offset, divergent

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.divergent)


class CommitFailed(ClientError):
    """The member is no longer in the group: its partitions are others' now, or will be."""

    name = "COMMIT_FAILED"


class CorruptRecords(ClientError):
    """What was fetched, twice, is damaged or no batch that the SDK reads. The position stays before it: seek past."""

    name = "CORRUPT_RECORDS"
