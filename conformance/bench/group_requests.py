"""Measures the everyday requests to a coordinator: commits, fetches of offsets, heartbeats of both protocols, joins.

Eight connections, five requests in flight on each (a real Kafka serves one at a time per connection).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from conformance.bench.cases import Figures, LoadError, Scale, create_topic
from conformance.bench.pipeline import Client, Repeated, drive
from harness import processes
from harness.clients.members import Member, find_coordinator, subscription
from harness.protocol.wire_client import Wire, encode_request
from harness.servers.brokers import Broker

CONNECTIONS = 8
#: Requests per record of the small-records case: joins cost much more than a commit.
JOINS_SHARE = 20
_number = count(1)


def _measured(broker: Broker, clients: list[Client], requests: int, name: str) -> Figures:
    before = processes.cpu(broker.pid)
    seconds = drive(broker, clients)
    cpu = processes.cpu(broker.pid) - before
    return {f"{name}_s": requests / seconds, f"{name}_cpu_us": cpu.total_s * 1e6 / requests}


def _repeated(
    broker: Broker, total: int, name: str, api: str, version: int, fields: Callable[[int], Mapping[str, Any]]
) -> Figures:
    """Sends the same request over and over on each connection. Every reply must be the same."""
    clients: list[Client] = []
    for place in range(CONNECTIONS):
        frame = encode_request(api, version, fields(place))
        with Wire(broker.address) as wire:
            wire.send(frame)
            wire.receive()
            wire.send(frame)
            clients.append(Repeated(frame, wire.receive(), total // CONNECTIONS))
    return _measured(broker, clients, total, name)


def _groups(broker: Broker) -> list[str]:
    """Returns the names of new groups whose coordinators are loaded."""
    names = [f"bench-group-{next(_number)}" for _ in range(CONNECTIONS)]
    with Wire(broker.address, 60) as wire:
        for name in names:
            find_coordinator(wire, name)
    return names


def commits(broker: Broker, scale: Scale) -> Figures:
    """Measures OffsetCommit of one partition, then OffsetFetch of it, in groups without members."""
    topic, groups = create_topic(broker, 1), _groups(broker)
    row = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}

    def commit(place: int) -> Mapping[str, Any]:
        topics = [{"name": topic, "partitions": [row]}]
        member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        return {"group_id": groups[place], **member, "topics": topics}

    def fetch(place: int) -> Mapping[str, Any]:
        topics = [{"name": topic, "partition_indexes": [0]}]
        return {"group_id": groups[place], "topics": topics, "require_stable": True}

    with Wire(broker.address) as wire:
        reply = wire.ask("OffsetCommit", 8, **commit(0))
    if reply.topics[0].partitions[0].error_code:
        raise LoadError(str(reply))
    figures = _repeated(broker, scale.small_records, "commits", "OffsetCommit", 8, commit)
    return figures | _repeated(broker, scale.small_records, "offset_fetches", "OffsetFetch", 7, fetch)


def heartbeats(broker: Broker, scale: Scale) -> Figures:
    """Measures heartbeats of the classic protocol. Each connection is the only member of a stable group."""
    members = [Member(broker, name).join_alone() for name in _groups(broker)]

    def beat(place: int) -> Mapping[str, Any]:
        one = members[place]
        fields = {"group_id": one.group, "generation_id": one.generation, "member_id": one.member_id}
        return {**fields, "group_instance_id": None}

    try:
        if members[0].heartbeat():
            raise LoadError("a heartbeat is refused")
        return _repeated(broker, scale.small_records, "heartbeats", "Heartbeat", 4, beat)
    finally:
        for one in members:
            one.wire.close()


def consumer_heartbeats(broker: Broker, scale: Scale) -> Figures:
    """Measures heartbeats of the new protocol, by members that already have their assignment."""
    topic, groups = create_topic(broker, 4), _groups(broker)
    with Wire(broker.address, 60) as wire:
        epochs = [_settled(wire, name, topic) for name in groups]

    def beat(place: int) -> Mapping[str, Any]:
        return {"group_id": groups[place], "member_id": f"{groups[place]}-member", "member_epoch": epochs[place]}

    return _repeated(broker, scale.small_records, "consumer_heartbeats", "ConsumerGroupHeartbeat", 1, beat)


def _settled(wire: Wire, group: str, topic: str) -> int:
    """Joins a consumer group until it owns its assignment. Returns the epoch."""
    fields: dict[str, Any] = {"group_id": group, "member_id": f"{group}-member", "member_epoch": 0}
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic], "topic_partitions": []}
    reply = wire.ask("ConsumerGroupHeartbeat", 1, **fields, **joining)
    for _ in range(2000):
        if reply.error_code:
            raise LoadError(str(reply))
        if reply.assignment is not None and reply.assignment.topic_partitions:
            break
        time.sleep(0.01)  # a broker may assign only every second
        reply = wire.ask("ConsumerGroupHeartbeat", 1, **{**fields, "member_epoch": reply.member_epoch})
    rows = [{"topic_id": row.topic_id, "partitions": row.partitions} for row in reply.assignment.topic_partitions]
    reply = wire.ask(
        "ConsumerGroupHeartbeat", 1, **{**fields, "member_epoch": reply.member_epoch}, topic_partitions=rows
    )
    return int(reply.member_epoch)


class Joiner(Client):
    """Joins a new group, syncs, leaves, and goes on to the next. It encodes by hand, because ids differ each time."""

    def __init__(self, place: int, groups: int) -> None:
        self.names = (f"bench-join-{place}-{next(_number)}" for _ in range(groups))
        self.group = self.member = ""

    def start(self) -> bytes:
        name = next(self.names, None)
        if name is None:
            self.done = True
            return b""
        self.group = name
        metadata = subscription("bench")
        body = _string(name) + struct.pack(">ii", 60_000, 60_000) + _string("") + _string("consumer")
        body += struct.pack(">i", 1) + _string("range") + struct.pack(">i", len(metadata)) + metadata
        return _request(11, 2, body)

    def answer(self, reply: bytes) -> bytes:
        correlation, _, error = struct.unpack_from(">iih", reply)
        if error:
            raise LoadError(f"error {error} to request {correlation}")
        if correlation == 11:
            (generation,) = struct.unpack_from(">i", reply, 10)
            place = _after_string(reply, 14)
            self.member = _read_string(reply, place)
            head = _string(self.group) + struct.pack(">i", generation) + _string(self.member)
            share = struct.pack(">i", 1) + _string(self.member) + struct.pack(">i", 4) + b"mine"
            return _request(14, 2, head + share)
        if correlation == 14:
            return _request(13, 2, _string(self.group) + _string(self.member))
        return self.start()


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _after_string(data: bytes, place: int) -> int:
    (size,) = struct.unpack_from(">h", data, place)
    return place + 2 + max(0, int(size))


def _read_string(data: bytes, place: int) -> str:
    return data[place + 2 : _after_string(data, place)].decode()


def _request(key: int, version: int, body: bytes) -> bytes:
    """Returns a frame of an old version, with the API key as correlation id."""
    payload = struct.pack(">hhi", key, version, key) + _string("bench") + body
    return struct.pack(">i", len(payload)) + payload


def joins(broker: Broker, scale: Scale) -> Figures:
    """Measures JoinGroup, SyncGroup and LeaveGroup of groups with one member, each round in a new group."""
    _groups(broker)
    total = scale.small_records // JOINS_SHARE
    clients: list[Client] = [Joiner(place, total // CONNECTIONS) for place in range(CONNECTIONS)]
    return _measured(broker, clients, total, "joins")
