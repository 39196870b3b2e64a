"""What must hold of consumer groups, from what their members were told.

* ``one owner``  in a generation (classic) or at an epoch (KIP-848) no two members have the same partition
* ``offsets``    at the end the last acknowledged offset is there, or one that was sent later, or one that was written
  at an unknown time; a deleted topic has none
* ``answered``   once all faults have ended, a member that joins or syncs gets an answer in time

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
    """An attempt to commit an offset."""

    name: str
    topic_id: bytes
    sent: float
    acked: float | None = None
    """When the commit was acknowledged; None if nobody knows whether it was written, or will be."""
    is_refused: bool = False
    """True if the coordinator has refused to write the offset."""


class GroupOracle:
    """Records what the members of all groups have sent and received."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._owners: dict[tuple[str, int, bytes, int], str] = {}
        self._commits: dict[Place, list[Commit]] = {}
        self.joined = 0
        """The number of times that a member was assigned partitions."""

    def owns(self, group: str, generation: int, member: str, topic_id: bytes, partition: int) -> None:
        """Notes that the coordinator has assigned the partition to the member."""
        self.joined += 1
        key = group, generation, topic_id, partition
        owner = self._owners.setdefault(key, member)
        if owner != member:
            text = f"group {group}, {generation}: partition {partition} of {topic_id.hex()[:8]}: {owner}, {member}"
            self._oracle.report("one owner", text)

    def commits(self, group: str, tp: TopicPartition, topic_id: bytes) -> Commit:
        """Notes an attempt to commit an offset."""
        of_place = self._commits.setdefault((group, tp), [])
        name = f"{group}/{tp.topic}/{tp.partition}/{len(of_place)}"
        commit = Commit(name, topic_id, self._oracle.cluster.scheduler.now)
        of_place.append(commit)
        return commit

    def has_committed(self, commit: Commit) -> None:
        """Notes an acknowledged commit."""
        commit.acked = self._oracle.cluster.scheduler.now

    @property
    def places(self) -> list[Place]:
        """Returns every place with a commit."""
        return list(self._commits)

    def unanswered(self, text: str) -> None:
        """Notes that a member waited in vain for a coordinator although all faults had ended."""
        self._oracle.report("answered", text)

    def check(self, place: Place, found: str, topic_id: bytes | None) -> None:
        """Checks the commit called ``found``, which a coordinator returned at the end; NONE means no offset.
        ``topic_id`` is the id of the topic with that name now.
        """
        commits = self._commits[place]
        acked = [each for each in commits if each.acked is not None and each.topic_id == topic_id]
        last = max((each.sent for each in acked), default=None)
        if found == NONE:
            if acked:
                self._oracle.fail("offsets", f"{place}: {acked[-1]} is lost")
            return
        told = next(each for each in commits if each.name == found)
        if topic_id is not None and told.topic_id != topic_id:
            self._oracle.fail("offsets", f"{place}: {told} is returned, but its topic was deleted")
        if told.is_refused:
            self._oracle.fail("offsets", f"{place}: {told} was refused, but is returned")
        if told.acked is not None and last is not None and told.acked < last:
            self._oracle.fail("offsets", f"{place}: {told} is returned, a later one was acknowledged: {acked[-1]}")
