"""One fetch over its partitions: what it reads, and when that is enough.

Limits (KIP-74): partitions are read in the order of the request. The first that has records gives at least one batch,
however large, so that a consumer always makes progress. After that, the rest of ``max_bytes`` bounds each of them.

A fetch is answered at once when it has ``min_bytes``, when a partition answers with an error or a
divergence, or when there is nothing to wait for. Else it waits, and whenever a partition changes
only that one is read again: nothing else can have changed. So the read that ends the wait is also
the one that is sent.

Pure: partitions are found by a function that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.replication.fetch_partition import UNKNOWN, FetchPartition, Isolation, PartitionRead
from pybroker.replication.partition import Partition
from pyclient.protocol.errors import KafkaError


class Fetch:
    """One fetch over its partitions."""

    __slots__ = (
        "_find",
        "_isolation",
        "_max_bytes",
        "_min_bytes",
        "_must_lead",
        "_select",
        "partitions",
        "reads",
        "size",
        "wanted",
    )

    def __init__(
        self,
        wanted: Sequence[FetchPartition],
        find: Callable[[FetchPartition], Partition],
        *,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        must_lead: bool = True,
        select: Callable[[Partition, FetchPartition], int] | None = None,
    ) -> None:
        """``find`` raises KafkaError.

        ``must_lead``: a follower may not answer (Fetch before v11). ``select``: the replica that the
        fetcher should ask instead (UNKNOWN: this one).
        """
        self.wanted = wanted
        self.partitions: list[Partition | None] = []
        """Where each of ``wanted`` was found."""
        self.reads: list[PartitionRead] = []
        self.size = 0
        """Bytes of all ``reads``."""
        self._find = find
        self._max_bytes = max_bytes
        self._min_bytes = min(min_bytes, max_bytes)
        self._isolation = isolation
        self._must_lead = must_lead
        self._select = select

    def read_all(self) -> bool:
        """Reads every partition; True where the fetch should be answered now."""
        return self.read_some(self.wanted) or not self.wanted

    def read_some(self, some: Sequence[FetchPartition]) -> bool:
        """Reads the next of ``wanted``; True where the fetch should be answered when all have been read."""
        answer = False
        for wanted in some:
            partition: Partition | None = None
            try:
                partition = self._find(wanted)
                read = self._read(partition, wanted)
            except KafkaError as error:
                read = PartitionRead(error=error)
            self.partitions.append(partition)
            self.reads.append(read)
            self.size += read.size
            answer = answer or read.is_urgent
        return answer or self.size >= self._min_bytes

    def read_again(self, number: int) -> bool:
        """The partition at ``number`` has changed; True where the fetch should be answered now."""
        partition = self.partitions[number]
        assert partition is not None
        self.size -= self.reads[number].size
        try:
            read = self._read(partition, self.wanted[number])
        except KafkaError as error:
            read = PartitionRead(error=error)
        self.reads[number] = read
        self.size += read.size
        return read.is_urgent or self.size >= self._min_bytes

    def _read(self, partition: Partition, wanted: FetchPartition) -> PartitionRead:
        if self._select is not None:
            replica = self._select(partition, wanted)
            if replica != UNKNOWN:
                partition.check(wanted.current_leader_epoch, must_lead=True)
                return _redirected(partition, replica)
        left = self._max_bytes - self.size
        return partition.read(
            wanted,
            left if left > 0 else 0,
            self._isolation,
            min_one=self.size == 0,
            must_lead=self._must_lead,
        )


def _redirected(partition: Partition, replica: int) -> PartitionRead:
    log = partition.log
    read = PartitionRead(log.high_watermark, log.last_stable_offset, log.log_start_offset)
    read.preferred_read_replica = replica
    return read
