"""Measures how long a rebalance of 1,000 members and 5,000 partitions takes, and what it costs the broker.

Every member has a connection and reacts to each answer at once, without waiting for the next heartbeat. Classic: every
member of a stable group rejoins, as after a member's leave. Consumer protocol: the members join a group and send
heartbeats until each has its five partitions. Then half of them leave, and the rest send heartbeats until each has ten.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from conformance.bench.cases import Figures, LoadError, Scale
from conformance.bench.pipeline import Client, Later, Load
from harness import processes
from harness.clients.members import find_coordinator, subscription
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire, decode_response, encode_request
from harness.servers.brokers import Broker

MEMBERS, PARTITIONS, TOPICS = 1_000, 5_000, 5
JOIN, SYNC, BEAT = ("JoinGroup", 5), ("SyncGroup", 3), ("ConsumerGroupHeartbeat", 1)
BEAT_PAUSE_S = 0.05
_number = count(1)


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of members and partitions."""

    members: int
    partitions: int


def extent(scale: Scale) -> Extent:
    """Returns a tenth of the full extent if the load is to be small."""
    small = scale.small_records < 60_000
    return Extent(MEMBERS // 10, PARTITIONS // 10) if small else Extent(MEMBERS, PARTITIONS)


def _topics(broker: Broker, partitions: int) -> list[str]:
    names = [f"large-{next(_number)}" for _ in range(TOPICS)]
    with Wire(broker.address, 120) as wire:
        for name in names:
            wire.create_topic(name, partitions // TOPICS)
    return names


class ClassicMember(Client):
    """Joins and syncs until a sync returns its share; as leader it gives each member 60 bytes per partition."""

    def __init__(self, group: str, topics: Sequence[str], share: bytes) -> None:
        self.group, self.metadata, self.share = group, subscription(*topics), share
        self.member_id = ""
        self.generation = -1
        self.asked = JOIN

    def start(self) -> bytes:
        self.asked = JOIN
        protocols = [{"name": "range", "metadata": self.metadata}]
        return self._frame(
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=protocols,
        )

    def _frame(self, **fields: Any) -> bytes:
        known = {"group_id": self.group, "member_id": self.member_id, "group_instance_id": None}
        return encode_request(*self.asked, {**known, **fields})

    def answer(self, reply: bytes) -> bytes:
        answer = decode_response(*self.asked, reply)
        if self.asked is JOIN:
            self.member_id = answer.member_id
            return self.start() if answer.error_code == error_codes.MEMBER_ID_REQUIRED else self._sync(answer)
        if answer.error_code == error_codes.REBALANCE_IN_PROGRESS:
            return self.start()
        if answer.error_code:
            raise LoadError(str(answer))
        self.done = True
        return b""

    def _sync(self, answer: Any) -> bytes:
        if answer.error_code:
            return self.start()
        self.generation = answer.generation_id
        rows = [{"member_id": row.member_id, "assignment": self.share} for row in answer.members]
        self.asked = SYNC
        return self._frame(generation_id=self.generation, assignments=rows)


def classic_rebalance(broker: Broker, scale: Scale) -> Figures:
    """Lets all members of a stable group rejoin at once."""
    size = extent(scale)
    group = f"large-classic-{next(_number)}"
    topics = _topics(broker, size.partitions)
    with Wire(broker.address, 60) as wire:
        find_coordinator(wire, group)
    share = struct.pack(">hi", 0, 0) + b"p" * (60 * size.partitions // size.members)
    members = [ClassicMember(group, topics, share) for _ in range(size.members)]
    load = Load(broker, members)
    try:
        load.run()
        while len({one.generation for one in members}) > 1:
            load.run()
        before = processes.cpu(broker.pid)
        seconds = load.run()
        cpu = processes.cpu(broker.pid) - before
    finally:
        load.close()
    return {"classic_rebalance_ms": seconds * 1e3, "classic_rebalance_cpu_ms": cpu.total_s * 1e3}


class ConsumerMember(Client):
    """Sends heartbeats until it has its number of partitions; reports at once which ones it owns or revokes."""

    def __init__(self, group: str, number: int, topics: Sequence[str], wanted: int) -> None:
        self.group, self.topics, self.wanted = group, topics, wanted
        self.member_id = f"{group}-{number:04}"
        self.epoch = 0
        self.owned: list[Mapping[str, Any]] = []
        self.leaves = self.left = False

    @property
    def partitions(self) -> int:
        return sum(len(row["partitions"]) for row in self.owned)

    def start(self) -> bytes:
        if self.left:
            self.done = True
            return b""
        if self.leaves:
            return self._beat(member_epoch=-1)
        if self.epoch:
            return self._beat()
        joining = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": self.topics, "topic_partitions": []}
        return self._beat(**joining)

    def _beat(self, **fields: Any) -> bytes:
        known = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        return encode_request(*BEAT, {**known, **fields})

    def answer(self, reply: bytes) -> bytes | Later:
        answer = decode_response(*BEAT, reply)
        if answer.error_code:
            raise LoadError(str(answer))
        if self.leaves:
            self.left = self.done = True
            return b""
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.owned = [{"topic_id": row.topic_id, "partitions": row.partitions} for row in rows]
            return self._beat(topic_partitions=self.owned)
        if self.partitions == self.wanted:
            self.done = True
            return b""
        return Later(self._beat(), BEAT_PAUSE_S)


def consumer_rebalance(broker: Broker, scale: Scale) -> Figures:
    """Forms a group; then every second member leaves."""
    size = extent(scale)
    group = f"large-consumer-{next(_number)}"
    topics = _topics(broker, size.partitions)
    with Wire(broker.address, 60) as wire:
        find_coordinator(wire, group)
    each = size.partitions // size.members
    members = [ConsumerMember(group, number, topics, each) for number in range(size.members)]
    load = Load(broker, members)
    try:
        before = processes.cpu(broker.pid)
        formed_s = load.run()
        formed = processes.cpu(broker.pid) - before
        for place, one in enumerate(members):
            one.leaves, one.wanted = place % 2 == 1, each * 2
        before = processes.cpu(broker.pid)
        halved_s = load.run()
        halved = processes.cpu(broker.pid) - before
    finally:
        load.close()
    return {
        "consumer_form_ms": formed_s * 1e3,
        "consumer_form_cpu_ms": formed.total_s * 1e3,
        "consumer_rebalance_ms": halved_s * 1e3,
        "consumer_rebalance_cpu_ms": halved.total_s * 1e3,
    }
