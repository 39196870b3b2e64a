"""A group member that a test drives by the classic protocol, one request at a time."""

from __future__ import annotations

import struct
from types import TracebackType
from typing import Any, Self

from harness.protocol import error_codes, kinds
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import settled


def subscription(*topics: str) -> bytes:
    """A consumer's ``ConsumerProtocolSubscription`` v0: version, topics, no user data."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Member:
    """Joins, syncs, sends heartbeats and leaves on demand. It keeps the broker's last answers."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        *,
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        protocols: dict[str, bytes] | None = None,
    ) -> None:
        self.wire = Wire(broker.address, 60)
        self.group = group
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.instance_id = instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols or {"range": subscription()}
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.members: list[str] = []
        self._early_reply: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.wire.close()

    @property
    def leads(self) -> bool:
        return self.leader == self.member_id

    def post_join(self, version: int = 7) -> None:
        """Sends a join, after fetching a member id if one is required. The reply comes when the rebalance ends."""
        self._send_join(version)
        if version >= 4 and not self.member_id and self.instance_id is None:
            reply = self.wire.reply("JoinGroup", version)
            if reply.error_code == error_codes.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self._send_join(version)
            else:
                self._early_reply = reply

    def _send_join(self, version: int) -> None:
        self.wire.post(
            "JoinGroup",
            version,
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[{"name": name, "metadata": data} for name, data in self.protocols.items()],
        )

    def joined(self, version: int = 7) -> Any:
        """Receives the reply to a join, and keeps the reply's values if it has no error."""
        reply, self._early_reply = self._early_reply, None
        if reply is None:
            reply = self.wire.reply("JoinGroup", version)
        if reply.error_code == 0:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            self.leader = reply.leader
            self.members = [row.member_id for row in reply.members]
        return reply

    def join(self, version: int = 7) -> Any:
        """Sends a JoinGroup request and returns the response."""
        self.post_join(version)
        return self.joined(version)

    def post_sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> None:
        rows = [{"member_id": member, "assignment": data} for member, data in (assignments or {}).items()]
        self.wire.post(
            "SyncGroup",
            version,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=next(iter(self.protocols)),
            assignments=rows,
        )

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> Any:
        self.post_sync(assignments, version)
        return self.wire.reply("SyncGroup", version)

    def join_alone(self) -> Self:
        """Becomes the stable group's only member."""
        reply = self.join()
        assert reply.error_code == 0, reply
        assert self.leads
        assert self.sync({self.member_id: b"everything"}).error_code == 0
        return self

    def heartbeat(self, version: int = 4, **changes: Any) -> int:
        """Sends a heartbeat and returns the error code of its response."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return int(self.wire.ask("Heartbeat", version, **{**fields, **changes}).error_code)

    def commit(self, topic: str, offset: int, *, metadata: str = "", **changes: Any) -> int:
        """Commits one offset of partition 0 and returns the error code."""
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": [{"name": topic, "partitions": [row]}],
        }
        reply = self.wire.ask("OffsetCommit", 8, **{**fields, **changes})
        return int(reply.topics[0].partitions[0].error_code)

    def commit_outside(self, topic: str, offset: int) -> int:
        """Commits without a generation and returns the error code."""
        return self.commit(topic, offset, generation_id_or_member_epoch=-1, member_id="")

    def leave(self) -> int:
        """Leaves, and returns the error code of the member's own row."""
        row = {"member_id": self.member_id, "group_instance_id": self.instance_id}
        reply = self.wire.ask("LeaveGroup", 4, group_id=self.group, members=[row])
        assert reply.error_code == 0
        return int(reply.members[0].error_code)


def find_coordinator(wire: Wire, group: str) -> Any:
    """Returns the reply for one group, once `__consumer_offsets` exists and the group is loaded."""
    asked = {"key": group, "key_type": kinds.GROUP}
    not_ready = error_codes.COORDINATOR_NOT_READY
    reply = settled(lambda: wire.ask("FindCoordinator", 3, **asked), not_ready, f"a coordinator of group {group}")
    settled(lambda: _describe(wire, group), not_ready, f"group {group} to be loaded")
    return reply


def committed(wire: Wire, group: str, topic: str, partition: int = 0) -> int:
    """Returns the committed offset, or -1."""
    find_coordinator(wire, group)
    reply = wire.ask(
        "OffsetFetch",
        7,
        group_id=group,
        topics=[{"name": topic, "partition_indexes": [partition]}],
        require_stable=True,
    )
    row = reply.topics[0].partitions[0]
    assert row.error_code == 0
    return int(row.committed_offset)


def describe(wire: Wire, group: str) -> Any:
    """Returns the row of one group."""
    find_coordinator(wire, group)
    return _describe(wire, group)


def _describe(wire: Wire, group: str) -> Any:
    return wire.ask("DescribeGroups", 5, groups=[group], include_authorized_operations=False).groups[0]
