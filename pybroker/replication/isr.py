"""Tracks which replicas are in sync with the leader.

A follower is *in sync* while its last fetch at or beyond what was the leader's log end lies at most
``replica.lag.time.max.ms`` back. One that has been taken out comes back when it has reached the
high watermark and the start of the leader's epoch.

A fetch shows what one registration of a broker has, but not what a later one has. A machine that has lost its power
registers again and may have fewer records. So a proposal names the registration of the fetches that justify it, and
fetches of an ended registration justify none (KIP-903).

The set is not the leader's to change: it proposes (``Expand``, ``Shrink``), the controller decides,
and the answer comes back as ``confirm`` or ``give_up``. In between the proposal is *pending*: the high watermark
counts the members of both sets. So whichever set the controller chooses, no record counts as committed that a member
lacks (KIP-497's maximal ISR). One proposal at a time.

Invariants: the leader is always a member; the high watermark is the least log end over the maximal
set and never falls within an epoch.

Pure: time (monotonic milliseconds) is an argument.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

UNKNOWN_OFFSET = -1


class Expand(NamedTuple):
    """Proposal: these are in sync now, ``replica`` among them, as the fetches of that registration show."""

    replica: int
    members: frozenset[int]
    broker_epoch: int


class Shrink(NamedTuple):
    """Proposal: only these are in sync; ``replicas`` have fallen behind."""

    replicas: frozenset[int]
    members: frozenset[int]


Proposal = TypeVar("Proposal", Expand, Shrink)


class Follower:
    """What the leader knows of a follower, all of it from its fetches."""

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
        """False where that is not the one that the cluster knows: it may not come in yet."""

    def on_fetch(self, offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> None:
        """It asks for ``offset``, so it has everything below."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_at_fetch >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = leader_end
        self.fetched_ms = now_ms

    def was_caught_up(self, fetched_ms: int) -> None:
        """It asked again for the end of the log at that time, and nothing had come since."""
        self.caught_up_ms = max(self.caught_up_ms, fetched_ms)
        self.fetched_ms = max(self.fetched_ms, fetched_ms)
        self.leader_end_at_fetch = self.log_end_offset

    def is_behind(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """True where it lacks records, and has for longer than allowed."""
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
        """By node id: every other replica, in sync or not."""
        self.members = frozenset(members) | {leader}
        """The in-sync replicas, as the controller has decided."""
        self.pending: Expand | Shrink | None = None
        """The proposal to which the controller has not answered."""
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
        """A follower fetches; perhaps it is in sync again. KeyError where it is no replica."""
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
        """The controller has answered; perhaps another follower has got in sync meanwhile."""
        if self.pending is None:
            for replica in sorted(self.followers.keys() - self.members):
                proposal = self._expand(replica, high_watermark)
                if proposal is not None:
                    return proposal
        return None

    def on_tick(self, leader_end: int, now_ms: int) -> Shrink | None:
        """Time has passed; perhaps members have fallen behind."""
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
        """The partition has other replicas now; what is known of those that stay is kept.

        A proposal with one that is none any more can only be refused: the controller knew before.
        """
        self.followers = {
            id: self.followers.get(id) or Follower(now_ms) for id in replicas if id != self._leader
        }
        if self.pending is not None and not self.pending.members <= {self._leader, *replicas}:
            self.pending = None
        self._maximal = self._others()

    def registered(self, replica: int, broker_epoch: int) -> bool:
        """The cluster knows this registration now, and no other; True where a follower has waited for that."""
        follower = self.followers.get(replica)
        if follower is None:
            return False
        waited = not follower.is_eligible
        follower.is_eligible = follower.broker_epoch == broker_epoch
        return waited and follower.is_eligible

    def set_ineligible(self, replica: int) -> None:
        """The broker has gone, or the controller does not want it for now."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.is_eligible = False

    def confirm(self, members: Collection[int]) -> None:
        """The controller has decided."""
        self.members = frozenset(members) | {self._leader}
        self.give_up()

    def give_up(self) -> None:
        """The proposal was refused or lost."""
        self.pending = None
        self._maximal = self._others()

    # Consequences

    def least_log_end(self, leader_end: int) -> int:
        """The offset below which every record is on all members, present and proposed."""
        followers = self.followers
        return min([leader_end, *(followers[id].log_end_offset for id in self._maximal)])

    @property
    def is_alone(self) -> bool:
        """True where the leader is the only member: what it has is committed."""
        return not self._maximal

    def low_watermark(self, leader_start: int) -> int:
        """The least log start over all replicas: every record below is gone everywhere."""
        starts = (follower.log_start_offset for follower in self.followers.values())
        return min([leader_start, *starts])

    def _others(self) -> tuple[int, ...]:
        """The maximal set without the leader."""
        proposed = self.pending.members if self.pending is not None else frozenset()
        return tuple((self.members | proposed) & self.followers.keys())
