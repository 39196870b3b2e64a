"""A consumer's fetch with an authorizer, which checks the right to each partition before every read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import READ_TOPIC, check_topic
from pybroker.replication.fetch_partition import FetchPartition, PartitionRead
from pybroker.replication.fetching import Fetch
from pybroker.replication.partition import Partition
from pyclient.protocol.errors import KafkaError


class PermittedFetch(Fetch):
    """Checks rights at each read, so that a waiting fetch returns no records that an ACL has forbidden meanwhile."""

    __slots__ = ("_call", "_resolve")

    def __init__(
        self, call: Call, wanted: Sequence[FetchPartition], find: Callable[[FetchPartition], Partition], **more: Any
    ) -> None:
        super().__init__(wanted, self._find_permitted, **more)
        self._call = call
        self._resolve = find

    def _find_permitted(self, wanted: FetchPartition) -> Partition:
        check_topic(self._call, READ_TOPIC, wanted.topic, wanted.topic_id)
        return self._resolve(wanted)

    def read_again(self, number: int) -> bool:
        """Reads a changed partition again, or answers with an error if the client may no longer read it."""
        wanted = self.wanted[number]
        try:
            check_topic(self._call, READ_TOPIC, wanted.topic, wanted.topic_id)
        except KafkaError as error:
            self.size -= self.reads[number].size
            self.reads[number] = PartitionRead(error=error)
            return True
        return super().read_again(number)
