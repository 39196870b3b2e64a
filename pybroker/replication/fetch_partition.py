"""A fetch's request for one partition, and the answer."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from cy.wire.sendfile import FileSlice
from pyclient.protocol.errors import KafkaError, without_frames

if TYPE_CHECKING:
    from pybroker.log.files.leader_epochs import EpochEnd
    from pybroker.log.files.txn_index import AbortedTransaction

UNKNOWN = -1


class Isolation(IntEnum):
    """Up to which offset a reader may read. The first two values are those of ``isolation_level`` in requests."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2
    """For followers: they read up to the log end, and records become committed when followers have read them."""


class FetchPartition:
    """A fetch's request for one partition. A fetch session keeps it from request to request.

    ``topic`` identifies the topic up to Fetch v12. From v13 on it is None, and ``topic_id`` identifies the topic.
    Epochs that the request does not name are -1.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = UNKNOWN,
        last_fetched_epoch: int = UNKNOWN,
        log_start_offset: int = UNKNOWN,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.sent_high_watermark = UNKNOWN
        """The high watermark in the last response of the session."""
        self.sent_log_start_offset = UNKNOWN

    @property
    def key(self) -> tuple[str | bytes, int]:
        """Identifies the partition within a request or session."""
        return (self.topic_id if self.topic is None else self.topic, self.index)

    def update(self, other: FetchPartition) -> None:
        """Takes over the fetcher's newest request for this partition."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset


class PartitionRead:
    """What a fetch got from one partition: records, or an error, and the partition's offsets."""

    __slots__ = (
        "aborted",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "size",
    )

    def __init__(
        self,
        high_watermark: int = UNKNOWN,
        last_stable_offset: int = UNKNOWN,
        log_start_offset: int = UNKNOWN,
        error: KafkaError | None = None,
    ) -> None:
        self.error = None if error is None else without_frames(error)
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records: FileSlice | bytes = b""
        self.size = 0
        """The number of bytes in ``records``."""
        self.aborted: list[AbortedTransaction] | None = None
        """Aborted transactions that overlap ``records``;

        None unless the reader wants committed records only.
        """
        self.diverging: EpochEnd | None = None
        """The end of the newest epoch that both logs share, if the fetcher's log diverges from the leader's."""
        self.preferred_read_replica = UNKNOWN

    @property
    def is_urgent(self) -> bool:
        """True if the fetch must be answered at once, however few bytes it has."""
        return self.error is not None or self.diverging is not None or self.preferred_read_replica != UNKNOWN
