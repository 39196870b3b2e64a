"""What must hold of consumer groups, from what their members were told.

* ``one owner``  in a generation (classic) or at an epoch (KIP-848) no two members have the same partition
* ``offsets``    at the end the last acknowledged offset is there, or one that was sent later, or one whose time of
  writing nobody knows; a deleted topic has none
* ``answered``   a member that joins or syncs gets an answer in time, once nothing fails any more

A commit names its topic by id and says in its metadata which commit it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from proofs.simulator.oracle.oracle import Oracle
from pybroker.topic_partition import TopicPartition

Place = tuple[str, TopicPartition]
"""A group and a partition."""
NONE = ""


@dataclass(slots=True)
class Commit:
    """One attempt to commit an offset."""

    name: str
    topic_id: bytes
    sent: float
    acked: float | None = None
    """None: nobody knows whether it was written, or will be."""
    is_refused: bool = False
    """The coordinator has said that it has not written it."""


class GroupOracle:
    """Keeps what the members of all groups have sent and were told."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._owners: dict[tuple[str, int, bytes, int], str] = {}
        self._commits: dict[Place, list[Commit]] = {}
        self.joined = 0
        """How often a member was given partitions."""

    def owns(self, group: str, generation: int, member: str, topic_id: bytes, partition: int) -> None:
        """The coordinator has given the partition to the member."""
        self.joined += 1
        key = group, generation, topic_id, partition
        owner = self._owners.setdefault(key, member)
        if owner != member:
            text = f"group {group}, {generation}: partition {partition} of {topic_id.hex()[:8]}: {owner} and {member}"
            self._oracle.report("one owner", text)

    def commits(self, group: str, tp: TopicPartition, topic_id: bytes) -> Commit:
        """An offset is being committed."""
        of_place = self._commits.setdefault((group, tp), [])
        name = f"{group}/{tp.topic}/{tp.partition}/{len(of_place)}"
        commit = Commit(name, topic_id, self._oracle.cluster.scheduler.now)
        of_place.append(commit)
        return commit

    def has_committed(self, commit: Commit) -> None:
        """It was acknowledged."""
        commit.acked = self._oracle.cluster.scheduler.now

    @property
    def places(self) -> list[Place]:
        """Wherever anything was committed."""
        return list(self._commits)

    def unanswered(self, text: str) -> None:
        """A member waited for its coordinator, to which nothing happened, in vain."""
        self._oracle.report("answered", text)

    def check(self, place: Place, found: str, topic_id: bytes | None) -> None:
        """At the end the commit called ``found`` is told, NONE: no offset. ``topic_id``: of the topic of that name."""
        commits = self._commits[place]
        acked = [each for each in commits if each.acked is not None and each.topic_id == topic_id]
        last = max((each.sent for each in acked), default=None)
        if found == NONE:
            if acked:
                self._oracle.fail("offsets", f"{place}: {acked[-1]} is lost")
            return
        told = next(each for each in commits if each.name == found)
        if topic_id is not None and told.topic_id != topic_id:
            self._oracle.fail("offsets", f"{place}: {told} is of a topic that is gone")
        if told.is_refused:
            self._oracle.fail("offsets", f"{place}: {told} was refused, and is told")
        if told.acked is not None and last is not None and told.acked < last:
            self._oracle.fail("offsets", f"{place}: {told} is told, a later one was acknowledged: {acked[-1]}")
