"""The client's view of the cluster: brokers, topics, partitions and their leaders. No I/O, no clock.

Facts come from Metadata responses and, between them, from responses that name a new leader (KIP-951). A fact about a
partition has the leader epoch as its version. An older fact does not replace a newer one of the same topic id.
Otherwise a broker that lags would send clients back to the old leader (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from pyclient.errors import KafkaError, of_code
from pyclient.protocol import ZERO_UUID, Metadata
from pyclient.topic_partition import TopicPartition

Listener = Callable[["Cluster", frozenset[str]], None]


class Broker(NamedTuple):
    """A broker as a Metadata response names it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition as Metadata describes it; ``leader`` is -1 if there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


class _Topic(NamedTuple):
    id: bytes
    is_internal: bool
    partitions: list[PartitionInfo]
    """The partitions in the order of their numbers, without gaps."""


class Cluster:
    """The metadata state machine: ``update`` takes responses, other methods read."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.version = 0
        """Counts updates. Values derived from the cluster are valid as long as this does not change."""
        self._topics: dict[str, _Topic] = {}
        self._names: dict[bytes, str] = {}
        self._errors: dict[str, KafkaError] = {}
        self._listeners: list[Listener] = []

    # -- reading -----------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Returns the names of the known topics."""
        return list(self._topics)

    def partitions(self, topic: str) -> list[PartitionInfo] | None:
        """Returns the partitions of a topic in the order of their numbers, None if the topic is unknown. Do not change
        the list.
        """
        found = self._topics.get(topic)
        return None if found is None else found.partitions

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        """Returns one partition, None if it is unknown."""
        found = self._topics.get(tp[0])
        if found is None or not 0 <= tp[1] < len(found.partitions):
            return None
        return found.partitions[tp[1]]

    def leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Returns (node, leader epoch), or None without a leader. The epoch is -1 if the broker is too old to send it.
        """
        found = self.partition(tp)
        return None if found is None or found.leader < 0 else (found.leader, found.leader_epoch)

    def racks(self, topic: str) -> list[frozenset[str]]:
        """Returns for each partition the known racks of its replicas; empty if the topic is unknown."""
        racks = {id: broker.rack for id, broker in self.brokers.items() if broker.rack is not None}
        return [frozenset(racks[id] for id in row.replicas if id in racks) for row in self.partitions(topic) or ()]

    def topic_id(self, topic: str) -> bytes:
        """Returns the topic's id (16 bytes); ``ZERO_UUID`` if it is unknown, or the brokers are too old for ids."""
        found = self._topics.get(topic)
        return ZERO_UUID if found is None else found.id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of a topic by its id."""
        return self._names.get(topic_id)

    def is_internal(self, topic: str) -> bool:
        """Returns whether the topic is internal to the brokers (``__consumer_offsets``)."""
        found = self._topics.get(topic)
        return found is not None and found.is_internal

    def error(self, topic: str) -> KafkaError | None:
        """Returns the error of the last answer about the topic, None if there was none."""
        return self._errors.get(topic)

    def has_leaders(self, topic: str) -> bool:
        """Returns whether the topic is known and every partition has a leader."""
        found = self._topics.get(topic)
        return found is not None and all(row.leader >= 0 for row in found.partitions)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls ``listener(cluster, topics)`` on the loop when these topics have changed. Returns a function that
        removes the listener.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- updates -----------------------------------------------------------------------------------

    def update(self, response: Metadata.Response, asked: Collection[str] | None) -> frozenset[str]:
        """Applies a Metadata response to a request for the topics ``asked`` (None: all). Returns the changed topics,
        after telling the listeners.
        """
        brokers = {
            row.node_id: Broker(row.node_id, row.host, row.port, row.rack)
            for row in response.brokers
        }
        if brokers:
            self.brokers = brokers
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        changed = {row.name for row in response.topics if row.name and self._take(row)}
        if asked is None:
            gone = self._topics.keys() - {row.name for row in response.topics}
            changed.update(name for name in gone if self._drop(name))
        return self._tell(changed)

    def _take(self, row: Metadata.Response.MetadataResponseTopic) -> bool:
        """Applies one topic of a response. Returns whether anything has changed."""
        name = row.name
        assert name is not None
        error = of_code(row.error_code)
        if error is not None:
            self._errors[name] = error
            gone = error.name in ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
            return gone and self._drop(name)
        self._errors.pop(name, None)
        old = self._topics.get(name)
        same = old is not None and old.id == row.topic_id
        known = old.partitions if old is not None and same else []
        rows = sorted(row.partitions, key=lambda each: each.partition_index)
        new = _Topic(row.topic_id, row.is_internal, [_newer(name, each, known) for each in rows])
        if old is not None and not same:
            self._names.pop(old.id, None)
        self._topics[name] = new
        if row.topic_id != ZERO_UUID:
            self._names[row.topic_id] = name
        return new != old

    def _drop(self, name: str) -> bool:
        old = self._topics.pop(name, None)
        if old is not None:
            self._names.pop(old.id, None)
        return old is not None

    def forget(self, topics: Iterable[str]) -> None:
        """Forgets these topics, which are no longer needed."""
        for name in topics:
            self._errors.pop(name, None)
            self._drop(name)
        self.version += 1

    def add_broker(self, broker: Broker) -> None:
        """Adds a broker that a response other than Metadata names. A known rack is kept."""
        known = self.brokers.get(broker.id)
        if known is None or known[:3] != broker[:3]:
            self.brokers = {**self.brokers, broker.id: broker}

    def forget_brokers(self) -> None:
        """Forgets the brokers, because other brokers have their addresses now. The next response names the brokers, and
        shows whether the cluster and its topics are still the same.
        """
        self.brokers, self.controller_id = {}, -1
        self.version += 1

    def leader_changed(self, tp: TopicPartition, node: int, epoch: int) -> bool:
        """Applies a partition's new leader from a response (KIP-951). Returns False if the leader is not new, or if its
        address is unknown and the metadata must be requested.
        """
        known = self.partition(tp)
        if known is None or node not in self.brokers or epoch <= known.leader_epoch:
            return False
        self._topics[tp[0]].partitions[tp[1]] = known._replace(leader=node, leader_epoch=epoch)
        self._tell({tp[0]})
        return True

    def _tell(self, changed: set[str]) -> frozenset[str]:
        self.version += 1
        topics = frozenset(changed)
        if topics:
            for listener in list(self._listeners):
                listener(self, topics)
        return topics


def _newer(
    topic: str,
    row: Metadata.Response.MetadataResponsePartition,
    known: list[PartitionInfo],
) -> PartitionInfo:
    """Returns the partition of a response, or the known one if that has a later leader epoch."""
    number = row.partition_index
    if number < len(known) and 0 <= row.leader_epoch < known[number].leader_epoch:
        return known[number]
    return PartitionInfo(
        topic,
        number,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.offline_replicas),
    )
