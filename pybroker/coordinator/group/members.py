"""The members of a classic group, and the protocols that they have in common.

Members are ordered by their arrival, and when the leader leaves, the first of the others becomes leader. A *static*
member (KIP-345) is identified by its instance id and keeps its place when it returns under a new member id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from pybroker.coordinator.shard import Event, Token
from pybroker.coordinator.timer_wheel import Timer
from pyclient.protocol import errors

Protocols = tuple[tuple[str, bytes], ...]
"""Protocols (for consumers: assignors) with the member's metadata, in the order of preference."""
BYTES_OF_A_MEMBER: Final = 200
"""Roughly how many bytes a member adds to the record of its group, without its texts."""


def size_of(client_id: str, instance_id: str | None, protocols: Protocols) -> int:
    """Returns roughly how many bytes a member with these values adds to the record of its group."""
    said = sum(len(name) + len(metadata) for name, metadata in protocols)
    return BYTES_OF_A_MEMBER + len(client_id) + len(instance_id or "") + said


class Member:
    """One member of a classic group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "id",
        "instance_id",
        "is_new",
        "join_token",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.id = id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """True until it has got its first JoinGroup response: before, it cannot send heartbeats."""
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.session: Timer[Event] | None = None
        self.deadline_ms = 0
        """When the session ends; the timer may fire earlier, and checks this."""

    def __repr__(self) -> str:
        return f"Member({self.id!r})"

    @property
    def size(self) -> int:
        """What ``size_of`` returns for the member."""
        return size_of(self.client_id, self.instance_id, self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Returns the metadata that the member sent for ``protocol``, empty if the member does not support it."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Returns the candidate that the member prefers; it must support one of them."""
        return next(name for name, _ in self.protocols if name in candidates)


class Members:
    """The members by id, in the order of their arrival."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._known_by: Counter[str] = Counter()
        self.leader_id: str | None = None
        self.joining = 0
        """How many members wait for a JoinGroup response."""
        self.size = 0
        """The sum of the members' sizes."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        """Returns the member, or None."""
        return self._by_id.get(member_id)

    def static(self, instance_id: str | None) -> Member | None:
        """Returns the member with this instance id, or None."""
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def known(self, member_id: str, instance_id: str | None) -> Member:
        """Returns the member that a request names. Raises UnknownMemberId, FencedInstanceId."""
        if instance_id is not None:
            holder = self._static.get(instance_id)
            if holder is None:
                raise errors.UnknownMemberId(f"no member has group.instance.id {instance_id}")
            if holder != member_id:
                raise errors.FencedInstanceId(f"group.instance.id {instance_id} belongs to member {holder} now")
        member = self._by_id.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"no member has the id {member_id}")
        return member

    def add(self, member: Member) -> None:
        """Adds a member; the first one becomes leader."""
        self.size += member.size
        self._by_id[member.id] = member
        self._known_by.update({name for name, _ in member.protocols})
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        if self.leader_id is None:
            self.leader_id = member.id

    def remove(self, member: Member) -> None:
        """Removes the member; if it led, the next one leads. The caller answers its waiting requests."""
        del self._by_id[member.id]
        self.size -= member.size
        self._known_by.subtract({name for name, _ in member.protocols})
        if member.join_token is not None:
            self.joining -= 1
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader_id == member.id:
            self.leader_id = next(iter(self._by_id), None)

    def rename(self, member: Member, new_id: str) -> None:
        """Gives a static member another id; it keeps its place and its leadership."""
        if self.leader_id == member.id:
            self.leader_id = new_id
        renamed = {new_id if id == member.id else id: each for id, each in self._by_id.items()}
        self._by_id = renamed
        member.id = new_id
        if member.instance_id is not None:
            self._static[member.instance_id] = new_id

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Sets the member's protocols."""
        self._known_by.subtract({name for name, _ in member.protocols})
        self.size -= member.size
        member.protocols = protocols
        self.size += member.size
        self._known_by.update({name for name, _ in protocols})

    def wait_for_join(self, member: Member, token: Token | None) -> Token | None:
        """Lets the member wait for a JoinGroup response; returns the token that this one replaces."""
        replaced, member.join_token = member.join_token, token
        if replaced is None:
            self.joining += 1
        return replaced

    def stop_waiting(self, member: Member) -> Token | None:
        """Ends the wait for a JoinGroup response; returns the token of the member, if it has one."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.joining -= 1
        return token

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader has joined; returns False if no member has."""
        leader = self._by_id.get(self.leader_id or "")
        if leader is None or leader.join_token is None:
            leader = next((each for each in self if each.join_token is not None), None)
            if leader is None:
                return False
            self.leader_id = leader.id
        return True

    def agree_on(self, names: Iterable[str]) -> bool:
        """Returns whether all members support one of these protocols."""
        return any(self._known_by[name] == len(self) for name in names)

    def choose_protocol(self) -> str:
        """Returns the protocol with most votes among those that all members support; in a tie the first.

        There must be members, and a protocol that all of them support.
        """
        everyone = len(self)
        candidates = {name for name, count in self._known_by.items() if count == everyone}
        votes = Counter(member.vote(candidates) for member in self)
        return max(votes, key=lambda name: votes[name])
