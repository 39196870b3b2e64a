"""One fetch over its partitions: what it reads, and when it has enough to answer.

Limits (KIP-74): partitions are read in the order of the request. The first one with records returns at least one batch,
however large, so that a consumer always makes progress. Each later one is limited to what is left of ``max_bytes``.

A fetch is answered at once if it has ``min_bytes``, if a partition returns an error or a diverging epoch, or if it
names no partitions. Otherwise it waits. Whenever a partition changes, only that partition is read again, since the
others have not changed. So the response has the records of the read that ended the wait.

Pure: the caller provides a function that finds partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.replication.fetch_partition import UNKNOWN, FetchPartition, Isolation, PartitionRead
from pybroker.replication.partition import Partition
from pyclient.protocol.errors import KafkaError


class Fetch:
    """One fetch over all partitions that it requests."""

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
        """``find`` returns a partition or raises KafkaError.

        With ``must_lead``, a follower may not answer (Fetch before v11). ``select`` returns the replica from which the
        fetcher should read, UNKNOWN for the replica on this broker.
        """
        self.wanted = wanted
        self.partitions: list[Partition | None] = []
        """The partition for each element of ``wanted``, None if it was not found."""
        self.reads: list[PartitionRead] = []
        self.size = 0
        """How many bytes all ``reads`` have."""
        self._find = find
        self._max_bytes = max_bytes
        self._min_bytes = min(min_bytes, max_bytes)
        self._isolation = isolation
        self._must_lead = must_lead
        self._select = select

    def read_all(self) -> bool:
        """Reads every partition. Returns True if the fetch should be answered now."""
        return self.read_some(self.wanted) or not self.wanted

    def read_some(self, some: Sequence[FetchPartition]) -> bool:
        """Reads ``some``, the next partitions of ``wanted``. Returns True if the fetch need not wait once all are read.
        """
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
        """Reads the changed partition at ``number`` again. Returns True if the fetch should be answered now."""
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
