"""Defects of what an ack promises: acks=all, the high watermark and the in-sync replicas."""

from __future__ import annotations

from typing import Any

from proofs.defects import Patch
from proofs.defects.suites import LOGS, in_histories, in_trial
from pybroker.cluster.decisions.topic_rules import MIN_ISR, TopicRules
from pybroker.replication.fetch_partition import Isolation
from pybroker.replication.isr import Expand, IsrTracker, Shrink
from pybroker.replication.partition import Partition
from pybroker.replication.promises import Promises
from pybroker.replication.purgatory import WaitingAck


@in_trial("frozen followers", "lost")
@in_histories("crashes", *LOGS)
def takes_acks_all_for_acks_1() -> list[Patch]:
    """The leader answers acks=all after its own append."""
    return [(Promises, "promise", lambda *_: None)]


@in_trial("frozen followers", "lost")
def acks_before_replication() -> list[Patch]:
    """Appended records count as replicated."""
    return [(Partition, "is_replicated", lambda self, last_offset: True)]


@in_trial("frozen followers", "lost")
def acks_when_the_time_is_over() -> list[Patch]:
    """If a request has waited for its whole timeout, the leader answers it with success."""
    return [(WaitingAck, "expired", lambda self: self.answer(None))]


# The high watermark


@in_trial("frozen followers", "lost")
@in_histories("crashes", *LOGS)
def counts_only_the_leader() -> list[Patch]:
    """The high watermark is the leader's log end offset."""
    return [(IsrTracker, "least_log_end", lambda self, leader_end: leader_end)]


@in_trial("frozen followers", "lost")
def believes_to_be_alone() -> list[Patch]:
    """A leader believes that no follower is in sync."""
    return [(IsrTracker, "is_alone", property(lambda self: True))]


@in_trial("one frozen follower", "lost")
def waits_for_the_quickest_follower() -> list[Patch]:
    """One follower's copy is enough."""

    def quickest(self: IsrTracker, leader_end: int) -> int:
        ends = [follower.log_end_offset for follower in self.followers.values()]
        return min(leader_end, max(ends, default=leader_end))

    return [(IsrTracker, "least_log_end", quickest)]


@in_histories("crashes", *LOGS)
def high_watermark_falls() -> list[Patch]:
    """The high watermark follows the lowest log end offset of the in-sync replicas, even if that falls."""

    def advance(self: Partition) -> bool:
        if self.isr is None:
            return False
        end = self.log.log_end_offset
        self.log.update_high_watermark(self.isr.least_log_end(end))
        return True

    return [(Partition, "advance", advance)]


@in_trial("frozen followers", "unseen")
def shows_what_is_not_replicated() -> list[Patch]:
    """Consumers read to the end of the log."""
    read = Partition.read

    def read_all(self: Partition, wanted: Any, max_bytes: int, isolation: Any, **options: Any) -> Any:
        return read(self, wanted, max_bytes, Isolation.LOG_END, **options)

    return [(Partition, "read", read_all)]


# The in-sync replicas


@in_histories("crashes", *LOGS)
def forgets_the_proposed() -> list[Patch]:
    """A proposed replica does not count, although the controller may have accepted it."""
    return [(IsrTracker, "_others", lambda self: tuple(self.members & self.followers.keys()))]


@in_histories("crashes", *LOGS)
def shrinks_at_once() -> list[Patch]:
    """A lagging replica stops counting before the controller has agreed."""
    propose = IsrTracker._propose

    def shrink_and_propose(self: IsrTracker, proposal: Any) -> Any:
        if isinstance(proposal, Shrink):
            self.members = proposal.members
        return propose(self, proposal)

    return [(IsrTracker, "_propose", shrink_and_propose)]


@in_histories("crashes", *LOGS)
def expands_too_soon() -> list[Patch]:
    """The leader proposes a follower before it has caught up."""

    def expand(self: IsrTracker, replica: int, high_watermark: int) -> Any:
        follower = self.followers[replica]
        if not follower.is_eligible:
            return None
        return self._propose(Expand(replica, self.members | {replica}, follower.broker_epoch))

    return [(IsrTracker, "_expand", expand)]


@in_trial("too few", "lost")
@in_histories("crashes", *LOGS)
def ignores_min_insync_replicas() -> list[Patch]:
    """A leader commits alone, whatever min.insync.replicas says."""

    def reconfigured(self: Partition) -> None:
        self._lacks_replicas = False

    return [(Partition, "reconfigured", reconfigured)]


@in_histories("mixed min.insync.replicas", *LOGS)
def obeys_the_largest_min_insync_replicas() -> list[Patch]:
    """The largest min.insync.replicas of all replicas decides whether a replica that leaves the ISR stays eligible."""

    def min_isr(self: TopicRules, topic: Any, partition: Any) -> int:
        own = topic.configs.get(MIN_ISR)
        return int(own) if own else max(self._min_isr.values(), default=1)

    return [(TopicRules, "min_isr", min_isr)]
