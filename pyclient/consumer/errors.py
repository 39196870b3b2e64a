"""Errors that only a consumer meets."""

from __future__ import annotations

from pyclient.errors import ClientError


class IllegalState(ClientError, ValueError):
    """The consumer cannot do this as it is: the partition is not assigned, there is no group …"""

    name = "ILLEGAL_STATE"


class NoOffsetForPartition(ClientError):
    """No position, and auto.offset.reset=none."""

    name = "NO_OFFSET_FOR_PARTITION"


class CommitFailed(ClientError):
    """The member is no longer in the group: its partitions are others' now, or will be."""

    name = "COMMIT_FAILED"


class CorruptRecords(ClientError):
    """What was fetched is damaged, or is no batch that the SDK reads. The position stays before it: seek past."""

    name = "CORRUPT_RECORDS"
