"""The fetch session with one broker (KIP-227): after a full request only changes are sent.

Epoch 0 asks for a new session, with the id of the old one to close it; each further request increments the epoch. A
broker that keeps no session for this client answers with id 0 and gets full requests.
"""

from __future__ import annotations

from typing import NamedTuple

from pyclient.protocol import Fetch
from pyclient.protocol.errors import FetchSessionIdNotFound
from pyclient.topic_partition import TopicPartition


class Wanted(NamedTuple):
    """The fields of a partition in a Fetch request."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_epoch: int


class Plan(NamedTuple):
    """The session's part of a request."""

    session_id: int
    session_epoch: int
    topics: list[Fetch.Request.FetchTopic]
    forgotten: list[Fetch.Request.ForgottenTopic]


class FetchSession:
    """The session's state, which equals that of the broker."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self._known: dict[TopicPartition, Wanted] = {}

    def plan(self, wanted: dict[TopicPartition, Wanted], partition_max_bytes: int) -> Plan:
        """Returns the request that makes the broker fetch exactly the partitions ``wanted``."""
        known = self._known if self.epoch else {}
        changed = {tp: row for tp, row in wanted.items() if known.get(tp) != row}
        gone = [
            (tp, row.topic_id)
            for tp, row in known.items()
            if tp not in wanted or wanted[tp].topic_id != row.topic_id
        ]
        self._known = dict(wanted)
        return Plan(self.id, self.epoch, _topics(changed, partition_max_bytes), _forgotten(gone))

    def on_response(self, error_code: int, session_id: int) -> None:
        """Handles an answer. After an error, nothing else in the answer counts."""
        if error_code:
            self.id = 0 if error_code == FetchSessionIdNotFound.code else self.id
            self.epoch = 0
        elif session_id == 0:
            self.id = self.epoch = 0
        else:
            self.id = session_id
            self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1

    def on_failure(self) -> None:
        """Handles a request without an answer: the broker may or may not have counted it."""
        self.epoch = 0


def _topics(rows: dict[TopicPartition, Wanted], max_bytes: int) -> list[Fetch.Request.FetchTopic]:
    topics: dict[tuple[str, bytes], Fetch.Request.FetchTopic] = {}
    for tp, row in rows.items():
        topic = topics.get((tp.topic, row.topic_id))
        if topic is None:
            topic = Fetch.Request.FetchTopic(topic=tp.topic, topic_id=row.topic_id)
            topics[tp.topic, row.topic_id] = topic
        partition = Fetch.Request.FetchPartition(
            partition=tp.partition,
            current_leader_epoch=row.leader_epoch,
            fetch_offset=row.offset,
            last_fetched_epoch=row.last_epoch,
            partition_max_bytes=max_bytes,
        )
        topic.partitions.append(partition)
    return list(topics.values())


def _forgotten(gone: list[tuple[TopicPartition, bytes]]) -> list[Fetch.Request.ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = {}
    for tp, topic_id in gone:
        topics.setdefault((tp.topic, topic_id), []).append(tp.partition)
    return [
        Fetch.Request.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=partitions)
        for (topic, topic_id), partitions in topics.items()
    ]
