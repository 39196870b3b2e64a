"""Elections of leaders, as pure functions of a partition and of the state of its brokers.

The leader is the first fit replica, in the order of the replica list, that is in the ISR. The ISR is never empty: its
last member stays, dead or alive, because it has every acknowledged record.

If a replica leaves the ISR and the ISR is then smaller than ``min.insync.replicas``, no further record is committed. So
that replica has every committed record as well. It joins the *eligible leader replicas* (ELR, KIP-966), which may lead
if no member of the ISR can. The ELR are cleared as soon as the ISR is large enough again.

Brokers may differ in ``min.insync.replicas``, and a leader commits by its own value. So the controller uses the
smallest value of the live replicas. That is enough for three reasons. A dead broker does not lead. A broker that
returns is counted before it sees metadata that let it lead. A leader learns of a smaller ISR only from metadata, after
any earlier change of the key.

A broker whose machine went down, or whose disk failed, may have *lost* unsynced records. It leaves ISR and ELR unless
that empties them. It is not elected while another log may have more records; the partition waits instead. If all
replicas have lost records, one of the last ISR leads, because no other replica has more.

If no replica may lead, the partition is offline. With unclean election, the first fit replica leads instead and is the
only member of the ISR; records that only others had are lost. Each election raises the leader epoch.
``plan.PartitionChanges`` raises the partition epoch, which grows with every change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pybroker.cluster.metadata.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pybroker.topic_partition import TopicPartition

NOBODY: frozenset[int] = frozenset()


class Rules(Protocol):
    """The settings of a topic that decide elections."""

    def min_isr(self, topic: TopicImage, partition: PartitionImage) -> int:
        """Returns the min.insync.replicas of the partition: no possible leader commits with fewer replicas in sync."""

    def is_unclean_allowed(self, topic: TopicImage) -> bool:
        """Returns unclean.leader.election.enable."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The states of the brokers, by id.

    ``fit`` brokers may lead and be in sync. Brokers in ``leaving`` are about to stop, those in ``restarted`` must be
    elected again, and those in ``lost`` may lack unsynced records. ``offline`` has, by partition, the brokers that have
    lost the disk of their replica.
    """

    fit: frozenset[int]
    leaving: frozenset[int] = NOBODY
    restarted: frozenset[int] = NOBODY
    lost: frozenset[int] = NOBODY
    offline: Mapping[tuple[bytes, int], frozenset[int]] | None = None

    @classmethod
    def of(
        cls,
        brokers: Mapping[int, BrokerRegistration],
        known: Mapping[int, BrokerRegistration],
        boots: Mapping[int, str],
    ) -> Standing:
        """Compares ``brokers``, the current ones, with ``known``, those of the last election, and with ``boots``.

        ``boots`` has the last known start of each broker's machine: a machine that lost its power may be back before
        anybody has noticed.
        """
        leaving = frozenset(id for id, broker in brokers.items() if broker.is_leaving)
        again = [b for b in brokers.values() if _is_another(b, known.get(b.id), boots.get(b.id, b.boot))]
        offline: dict[tuple[bytes, int], set[int]] = defaultdict(set)
        for broker in brokers.values():
            for replica in broker.offline:
                offline[replica].add(broker.id)
        return cls(
            frozenset(brokers) - leaving,
            leaving,
            frozenset(broker.id for broker in again),
            frozenset(b.id for b in again if b.boot != boots.get(b.id, b.boot)),
            {replica: frozenset(ids) for replica, ids in offline.items()},
        )

    def at(self, topic_id: bytes, index: int) -> Standing:
        """Returns the states for one partition. A broker that has lost its disk there is not fit.

        Such a broker is not trusted even if it can read the disk again, because a failed sync may have dropped written
        data.
        """
        without = self.offline.get((topic_id, index)) if self.offline else None
        if not without:
            return self
        return replace(
            self, fit=self.fit - without, leaving=self.leaving - without, lost=self.lost | without
        )


@dataclass(slots=True)
class Elections:
    """The result of elections: how many partitions have a new leader, which ones have none, and which ones have a
    leader that may lack acknowledged records.
    """

    moved: int = 0
    offline: list[TopicPartition] = field(default_factory=list)
    doubtful: list[TopicPartition] = field(default_factory=list)

    def add(self, topic: str, before: PartitionImage, after: PartitionImage, lost: Collection[int]) -> None:
        """Adds one partition; ``lost`` are the brokers that may lack unsynced records."""
        if after.leader_epoch == before.leader_epoch:
            return
        place = TopicPartition(topic, after.index)
        if after.leader == NO_LEADER:
            self.offline.append(place)
        elif after.leader != before.leader:
            self.moved += 1
        if is_doubtful(before, after, lost):
            self.doubtful.append(place)


def fit_for(image: MetadataImage, topic_id: bytes, index: int) -> frozenset[int]:
    """Returns the brokers in ``image`` that may lead that partition and be in sync there."""
    replica = (topic_id, index)
    return frozenset(
        broker.id for broker in image.brokers.values() if not broker.is_leaving and replica not in broker.offline
    )


def _is_another(broker: BrokerRegistration, known: BrokerRegistration | None, boot: str) -> bool:
    """Returns whether the broker is a new process that may lack records of the ``known`` one.

    It may lack records if the old process did not stop cleanly, or if log dirs of ``boot`` are missing.
    """
    is_whole = broker.is_clean and _directories(boot) <= _directories(broker.boot)
    return not is_whole and (known is None or known.epoch != broker.epoch)


def _directories(boot: str) -> set[str]:
    """Returns the ids of the log dirs; in ``boot`` they follow the id of the machine's start."""
    return set(boot.split(" ")[1:])


def elect(
    partition: PartitionImage,
    alive: Collection[int],
    *,
    unclean: bool = False,
    lost: Collection[int] = (),
    min_isr: int = 1,
) -> PartitionImage:
    """Returns the partition with a leader among ``alive``, or with NO_LEADER if none of them may lead."""
    isr, elr = _trusted(partition, lost)
    candidates = [broker for broker in partition.replicas if broker in isr and broker in alive]
    if candidates:
        live = tuple(broker for broker in isr if broker in alive)
        return _led(partition, candidates[0], live, _eligible(partition, live, lost, min_isr))
    eligible = [broker for broker in partition.replicas if broker in elr and broker in alive]
    if eligible:
        alone = (eligible[0],)
        return _led(partition, eligible[0], alone, _eligible(partition, alone, lost, min_isr))
    survivors = [broker for broker in partition.replicas if broker in alive]
    if unclean and survivors:
        leader = next((broker for broker in survivors if broker in partition.isr), survivors[0])
        return _led(partition, leader, (leader,), ())
    return _led(partition, NO_LEADER, isr, elr)


def _trusted(
    partition: PartitionImage, lost: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns ISR and ELR without replicas that may lack records, as long as others remain."""
    if not lost:
        return partition.isr, partition.elr
    isr = tuple(broker for broker in partition.isr if broker not in lost)
    elr = tuple(broker for broker in partition.elr if broker not in lost)
    if isr:
        return isr, elr
    return (elr, ()) if elr else (partition.isr, ())


def _eligible(
    partition: PartitionImage, isr: Collection[int], lost: Collection[int], min_isr: int
) -> tuple[int, ...]:
    """Returns the ELR for a new ``isr``."""
    if len(isr) >= min(min_isr, len(partition.replicas)):
        return ()
    former = dict.fromkeys(partition.isr + partition.elr)
    return tuple(broker for broker in former if broker not in isr and broker not in lost)


def _led(
    partition: PartitionImage, leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> PartitionImage:
    return replace(
        partition,
        leader=leader,
        isr=isr,
        elr=elr,
        leader_epoch=partition.leader_epoch + 1,
    )


def with_isr(
    partition: PartitionImage,
    isr: tuple[int, ...],
    min_isr: int,
    lost: Collection[int] = (),
) -> PartitionImage:
    """Returns the partition with another ISR under the same leader, or the same object if nothing changes."""
    elr = _eligible(partition, isr, lost, min_isr)
    if isr == partition.isr and elr == partition.elr:
        return partition
    return replace(partition, isr=isr, elr=elr)


def after_change(
    partition: PartitionImage, brokers: Standing, *, unclean: bool = False, min_isr: int = 1
) -> PartitionImage:
    """Returns the partition after the live brokers have changed, or the same object if nothing changes.

    A restarted leader is elected again, even if it is the same broker. Its log may have lost an unsynced tail, and the
    new epoch shows followers and consumers where the log continues. A leaving broker keeps its leadership if no other
    replica can lead.
    """
    leader = partition.leader
    if leader in brokers.fit and leader not in brokers.restarted:
        return _without_unfit(partition, brokers.fit, brokers.lost, min_isr)
    elected = elect(partition, brokers.fit, unclean=unclean, lost=brokers.lost, min_isr=min_isr)
    if elected.leader != NO_LEADER:
        return elected
    if leader in brokers.leaving and leader not in brokers.restarted:
        return _without_unfit(partition, brokers.fit | {leader}, brokers.lost, min_isr)
    if leader == NO_LEADER and (elected.isr, elected.elr) == (partition.isr, partition.elr):
        return partition
    return elected


def _without_unfit(
    partition: PartitionImage, fit: Collection[int], lost: Collection[int], min_isr: int
) -> PartitionImage:
    isr = tuple(b for b in partition.isr if b in fit and (b not in lost or b == partition.leader))
    if isr == partition.isr and not (lost or partition.elr):
        return partition
    return with_isr(partition, isr, min_isr, lost)


def is_doubtful(before: PartitionImage, after: PartitionImage, lost: Collection[int]) -> bool:
    """Returns whether the partition's new leader may lack acknowledged records. Returns False for a single replica,
    because there is no choice.
    """
    if after.leader == NO_LEADER or len(after.replicas) == 1:
        return False
    return after.leader in lost or after.leader not in before.isr + before.elr


def after_changes(
    image: MetadataImage, brokers: Standing, rules: Rules
) -> Iterator[tuple[TopicImage, list[PartitionImage]]]:
    """Yields topics of ``image`` with those of their partitions that change."""
    for topic in image.topics.values():
        unclean = rules.is_unclean_allowed(topic)
        changed = []
        for partition in topic.partitions:
            here = brokers.at(topic.id, partition.index) if brokers.offline else brokers
            min_isr = rules.min_isr(topic, partition)
            after = after_change(partition, here, unclean=unclean, min_isr=min_isr)
            if after is not partition:
                changed.append(after)
        if changed:
            yield topic, changed
