"""Asks leaders where epochs end (OffsetForLeaderEpoch, KIP-320): see ``truncation``.

Each leader gets one request, and a partition is in one request at a time. Runs on the client's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.consumer.fetching.truncation import EpochEnd
from pyclient.consumer.subscription import PartitionState
from pyclient.core.client import Client
from pyclient.errors import KafkaError, LeaderNotAvailable, UnsupportedByBroker, of_code
from pyclient.protocol import OffsetForLeaderEpoch
from pyclient.topic_partition import TopicPartition

CONSUMER = -1
"""The replica id of clients that are not replicas."""


class Doubt(NamedTuple):
    """A place in a log, as it was when the leader was asked about it."""

    state: PartitionState
    turn: int
    offset: int
    epoch: int
    leader_epoch: int

    @property
    def is_current(self) -> bool:
        """Whether the next fetch would still begin at this place."""
        return self.state.turn == self.turn and self.state.fetch_offset == self.offset


class EpochEnds:
    """Asks leaders where epochs end, for one consumer. Calls ``on_end`` and ``on_error`` under the lock, and
    ``on_done`` last.
    """

    def __init__(
        self,
        client: Client,
        lock: SignalSafeLock,
        on_end: Callable[[PartitionState, int, EpochEnd], None],
        on_error: Callable[[PartitionState, KafkaError], None],
        on_done: Callable[[], None],
    ) -> None:
        self._client = client
        self._lock = lock
        self._on_end = on_end
        self._on_error = on_error
        self._on_done = on_done
        self._asked: set[PartitionState] = set()

    def ask(self, states: Iterable[PartitionState]) -> None:
        """Asks the leaders, and passes on their answers."""
        nodes: dict[int, dict[TopicPartition, Doubt]] = {}
        with self._lock:
            for state in states:
                leader = self._client.cluster.leader(state.tp)
                if leader is not None and state not in self._asked:
                    doubt = Doubt(state, state.turn, state.fetch_offset, state.fetch_epoch, leader[1])
                    nodes.setdefault(leader[0], {})[state.tp] = doubt
                    self._asked.add(state)
        for node, doubts in nodes.items():
            self._post(node, doubts)

    def _post(self, node: int, doubts: dict[TopicPartition, Doubt]) -> None:
        def on_done(response: Any, error: KafkaError | None) -> None:
            with self._lock:
                self._asked.difference_update(doubt.state for doubt in doubts.values())
                rows = {} if error is not None else _rows(response)
                for tp, doubt in doubts.items():
                    if doubt.is_current:
                        self._take(doubt, rows.get(tp), error)
            self._on_done()

        self._client.post(self._client.nodes.aside(node), OffsetForLeaderEpoch, request_of(doubts), on_done)

    def _take(self, doubt: Doubt, row: Any, error: KafkaError | None) -> None:
        if isinstance(error, UnsupportedByBroker):
            doubt.state.proven = doubt.leader_epoch
        elif error is not None or row is None:
            self._on_error(doubt.state, error or LeaderNotAvailable(f"{doubt.state.tp}: no answer about it"))
        elif failure := of_code(row.error_code):
            self._on_error(doubt.state, self._client.rights.told(failure, topic=doubt.state.tp.topic))
        else:
            self._on_end(doubt.state, doubt.leader_epoch, EpochEnd(row.leader_epoch, row.end_offset))


def request_of(doubts: dict[TopicPartition, Doubt]) -> OffsetForLeaderEpoch.Request:
    """Returns the request that asks where the epochs of these places end."""
    topics: dict[str, OffsetForLeaderEpoch.Request.OffsetForLeaderTopic] = {}
    for tp, doubt in doubts.items():
        topic = topics.setdefault(tp.topic, OffsetForLeaderEpoch.Request.OffsetForLeaderTopic(topic=tp.topic))
        row = OffsetForLeaderEpoch.Request.OffsetForLeaderPartition(
            partition=tp.partition, current_leader_epoch=doubt.leader_epoch, leader_epoch=doubt.epoch
        )
        topic.partitions.append(row)
    return OffsetForLeaderEpoch.Request(replica_id=CONSUMER, topics=list(topics.values()))


def _rows(response: OffsetForLeaderEpoch.Response) -> dict[TopicPartition, Any]:
    return {TopicPartition(topic.topic, row.partition): row for topic in response.topics for row in topic.partitions}
