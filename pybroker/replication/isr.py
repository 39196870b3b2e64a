"""Tracks which replicas are in sync with the leader.

A follower is *in sync* while at most ``replica.lag.time.max.ms`` have passed since it last fetched from the leader's
log end. A replica outside the set rejoins when it has reached the high watermark and the start of the leader's epoch.

A fetch proves which records a broker has in one registration, but not in a later one: after a power failure, the broker
registers again and may have fewer records. So a proposal names the registration whose fetches justify it, and fetches
of an ended registration justify no proposal (KIP-903).

The leader only proposes a change (``Expand``, ``Shrink``). The controller decides, and its answer comes back as
``confirm`` or ``give_up``. Until then the proposal is *pending*, and the high watermark counts the members of both
sets (KIP-497's maximal ISR). So no record counts as committed that a member of either set lacks. There is one proposal
at a time.

Invariants: the leader is always a member; the high watermark is the least log end over the maximal
set and never falls within an epoch.

Pure: time (monotonic milliseconds) is an argument.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

UNKNOWN_OFFSET = -1


class Expand(NamedTuple):
    """Proposes that ``replica`` joins the in-sync ``members``; fetches in ``broker_epoch`` prove that it may."""

    replica: int
    members: frozenset[int]
    broker_epoch: int


class Shrink(NamedTuple):
    """Proposes that only ``members`` stay in sync, since ``replicas`` have fallen behind."""

    replicas: frozenset[int]
    members: frozenset[int]


Proposal = TypeVar("Proposal", Expand, Shrink)


class Follower:
    """The facts that a leader learns of a follower from its fetches."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "is_eligible",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, now_ms: int) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.fetched_ms = now_ms
        self.caught_up_ms = now_ms
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_OFFSET
        """The registration of the broker that fetches."""
        self.is_eligible = True
        """False while the metadata has another registration of the broker: the replica may not join the set yet."""

    def on_fetch(self, offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> None:
        """Notes a fetch from ``offset``: the follower has everything below it."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_at_fetch >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = leader_end
        self.fetched_ms = now_ms

    def was_caught_up(self, fetched_ms: int) -> None:
        """Notes that the follower was caught up at ``fetched_ms``, when it fetched from the log's end."""
        self.caught_up_ms = max(self.caught_up_ms, fetched_ms)
        self.fetched_ms = max(self.fetched_ms, fetched_ms)
        self.leader_end_at_fetch = self.log_end_offset

    def is_behind(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Returns True if the follower has lacked records for longer than ``lag_time_max_ms``."""
        return self.log_end_offset != leader_end and now_ms - self.caught_up_ms > lag_time_max_ms


class IsrTracker:
    """The in-sync replicas of one leader epoch; each election makes a new object."""

    __slots__ = (
        "_epoch_start",
        "_lag_time_max_ms",
        "_leader",
        "_maximal",
        "followers",
        "members",
        "pending",
    )

    def __init__(
        self,
        leader: int,
        replicas: Collection[int],
        members: Collection[int],
        *,
        epoch_start_offset: int,
        lag_time_max_ms: int,
        now_ms: int,
    ) -> None:
        self._leader = leader
        self._epoch_start = epoch_start_offset
        self._lag_time_max_ms = lag_time_max_ms
        self.followers = {id: Follower(now_ms) for id in replicas if id != leader}
        """All other replicas by node id, in sync or not."""
        self.members = frozenset(members) | {leader}
        """The in-sync replicas, as the controller has decided."""
        self.pending: Expand | Shrink | None = None
        """The proposal that the controller has not answered yet."""
        self._maximal = self._others()

    # Proposals

    def on_fetch(
        self,
        replica: int,
        offset: int,
        log_start_offset: int,
        *,
        leader_end: int,
        high_watermark: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN_OFFSET,
        is_eligible: bool = True,
    ) -> Expand | None:
        """Notes a follower's fetch; proposes to add the follower if it has caught up.

        Raises KeyError if the broker has no replica.
        """
        follower = self.followers[replica]
        follower.on_fetch(offset, log_start_offset, leader_end, now_ms)
        follower.broker_epoch = broker_epoch
        follower.is_eligible = is_eligible
        if replica in self.members or self.pending is not None:
            return None
        return self._expand(replica, high_watermark)

    def _expand(self, replica: int, high_watermark: int) -> Expand | None:
        follower = self.followers[replica]
        if not follower.is_eligible or follower.log_end_offset < max(high_watermark, self._epoch_start):
            return None
        return self._propose(Expand(replica, self.members | {replica}, follower.broker_epoch))

    def next_expand(self, high_watermark: int) -> Expand | None:
        """Proposes to add a follower that caught up while another proposal was pending."""
        if self.pending is None:
            for replica in sorted(self.followers.keys() - self.members):
                proposal = self._expand(replica, high_watermark)
                if proposal is not None:
                    return proposal
        return None

    def on_tick(self, leader_end: int, now_ms: int) -> Shrink | None:
        """Proposes to remove members that have fallen behind."""
        if self.pending is not None:
            return None
        behind = frozenset(
            id
            for id in self.members & self.followers.keys()
            if self.followers[id].is_behind(leader_end, now_ms, self._lag_time_max_ms)
        )
        return self._propose(Shrink(behind, self.members - behind)) if behind else None

    def _propose(self, proposal: Proposal) -> Proposal:
        self.pending = proposal
        self._maximal = self._others()
        return proposal

    def reassign(self, replicas: Collection[int], now_ms: int) -> None:
        """Takes over a new list of replicas; keeps the state of replicas that stay.

        Drops a pending proposal that includes a removed replica, since the controller can only refuse it.
        """
        self.followers = {
            id: self.followers.get(id) or Follower(now_ms) for id in replicas if id != self._leader
        }
        if self.pending is not None and not self.pending.members <= {self._leader, *replicas}:
            self.pending = None
        self._maximal = self._others()

    def registered(self, replica: int, broker_epoch: int) -> bool:
        """Sets the replica's only valid registration. Returns True if the follower waited for it and may now join."""
        follower = self.followers.get(replica)
        if follower is None:
            return False
        waited = not follower.is_eligible
        follower.is_eligible = follower.broker_epoch == broker_epoch
        return waited and follower.is_eligible

    def set_ineligible(self, replica: int) -> None:
        """Excludes the replica from proposals: its broker has gone, or the controller has refused it."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.is_eligible = False

    def confirm(self, members: Collection[int]) -> None:
        """Takes over the in-sync replicas that the controller has decided on."""
        self.members = frozenset(members) | {self._leader}
        self.give_up()

    def give_up(self) -> None:
        """Drops the pending proposal, which was refused or lost."""
        self.pending = None
        self._maximal = self._others()

    # Consequences

    def least_log_end(self, leader_end: int) -> int:
        """Returns the offset below which all current and proposed members have every record."""
        followers = self.followers
        return min([leader_end, *(followers[id].log_end_offset for id in self._maximal)])

    @property
    def is_alone(self) -> bool:
        """True if the leader is the only member, so that all its records are committed."""
        return not self._maximal

    def low_watermark(self, leader_start: int) -> int:
        """Returns the lowest log start of all replicas: every record below it is deleted on all of them."""
        starts = (follower.log_start_offset for follower in self.followers.values())
        return min([leader_start, *starts])

    def _others(self) -> tuple[int, ...]:
        """Returns the current and proposed members without the leader."""
        proposed = self.pending.members if self.pending is not None else frozenset()
        return tuple((self.members | proposed) & self.followers.keys())
