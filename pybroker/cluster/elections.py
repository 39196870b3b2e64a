"""Who leads a partition, as pure functions of the partition and the set of live brokers.

Rules: the leader is the first live replica, in the order of the replica list, that is in the ISR.
Where there is none the partition is offline, unless unclean election is on: then the first live
replica leads and is the ISR alone, and what only the others had is lost. The ISR never gets empty:
its last member stays, dead or not, because only it has every acknowledged record. Each election
raises the leader epoch, each change of anything the partition epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from pybroker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage


def elect(
    partition: PartitionImage, alive: Collection[int], *, unclean: bool = False
) -> PartitionImage:
    """The partition with a leader among ``alive``; NO_LEADER where nobody may lead."""
    isr = tuple(broker for broker in partition.isr if broker in alive)
    candidates = [broker for broker in partition.replicas if broker in isr]
    if candidates:
        return _led(partition, candidates[0], isr)
    survivors = [broker for broker in partition.replicas if broker in alive]
    if unclean and survivors:
        return _led(partition, survivors[0], (survivors[0],))
    return _led(partition, NO_LEADER, partition.isr)


def _led(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    return replace(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )


def after_change(
    partition: PartitionImage,
    alive: Collection[int],
    restarted: Collection[int],
    *,
    unclean: bool = False,
) -> PartitionImage:
    """The partition after brokers came and went; itself where nothing has to change.

    A leader in ``restarted`` is elected anew even if it is the same broker: its log may have lost
    an unsynced tail, and the new epoch tells followers and consumers where it begins again.
    """
    if partition.leader in alive and partition.leader not in restarted:
        return _without_dead(partition, alive)
    elected = elect(partition, alive, unclean=unclean)
    if elected.leader == NO_LEADER == partition.leader:
        return partition
    return elected


def _without_dead(partition: PartitionImage, alive: Collection[int]) -> PartitionImage:
    isr = tuple(broker for broker in partition.isr if broker in alive)
    if isr == partition.isr:
        return partition
    return replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)


def after_changes(
    image: MetadataImage,
    alive: Collection[int],
    restarted: Collection[int],
    is_unclean_allowed: Callable[[TopicImage], bool],
) -> dict[str, TopicImage]:
    """The topics that change when brokers came and went, as they are afterwards."""
    changed = {}
    for topic in image.topics.values():
        unclean = is_unclean_allowed(topic)
        partitions = tuple(
            after_change(partition, alive, restarted, unclean=unclean)
            for partition in topic.partitions
        )
        if any(new is not old for new, old in zip(partitions, topic.partitions, strict=True)):
            changed[topic.name] = topic._replace(partitions=partitions)
    return changed
