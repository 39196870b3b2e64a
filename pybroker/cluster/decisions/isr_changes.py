"""AlterPartition: a leader proposes the in-sync replicas, the controller decides.

A proposal names the epochs that the leader knows. It is refused if one of them is no longer current
(FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION). It is also refused if a replica may not be in sync (INELIGIBLE_REPLICA,
KIP-841 and 903). The reason is that its broker has left, is leaving, has registered again, or has lost the replica's
disk. A leader that knows newer epochs than the controller has asked a former controller.

Pure functions: the controller writes what they decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pybroker.cluster.decisions.elections import Rules, fit_for, with_isr
from pybroker.cluster.decisions.plan import PartitionChanges, Plan
from pybroker.cluster.decisions.reassignments import settled
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage, PartitionImage, TopicImage
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

ANY_EPOCH = -1


class InSync(NamedTuple):
    """A replica of a proposed ISR, and the broker epoch of its fetches."""

    broker: int
    epoch: int = ANY_EPOCH


class IsrChange(NamedTuple):
    """A leader's proposal for one partition."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSync, ...]


IsrOutcome = PartitionImage | KafkaError


def alter_partition(
    image: MetadataImage,
    leader: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
    rules: Rules,
) -> Plan[list[IsrOutcome]]:
    """Decides on the changes. Returns the resulting partition or an error for each. Raises StaleBrokerEpoch."""
    broker = image.brokers.get(leader)
    if broker is None or broker.epoch != broker_epoch:
        raise errors.StaleBrokerEpoch(f"broker {leader} is not registered in epoch {broker_epoch}")
    results: list[IsrOutcome] = []
    accepted = PartitionChanges(image)
    for change in changes:
        try:
            topic = image.writable(_topic(image, change))
            partition = accepted.current(topic, change.partition)
            _check(image, topic, partition, leader, change)
            isr = _in_order(partition, change)
            min_isr = rules.min_isr(topic, partition)
            after = accepted.add(topic, _after(image, topic, partition, isr, min_isr))
            results.append(_outcome(topic, after, leader))
        except KafkaError as error:
            results.append(error)
    return Plan(results, accepted.steps())


def _after(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    isr: tuple[int, ...],
    min_isr: int,
) -> PartitionImage:
    """Returns the partition with the new ISR, which may complete a reassignment."""
    after = with_isr(partition, isr, min_isr)
    if not partition.is_reassigned:
        return after
    return settled(partition, after, fit_for(image, topic.id, partition.index), min_isr)


def _outcome(topic: TopicImage, after: PartitionImage, leader: int) -> IsrOutcome:
    if after.leader == leader:
        return after
    return errors.NewLeaderElected(f"broker {after.leader} leads {topic.name}-{after.index} now")


def _topic(image: MetadataImage, change: IsrChange) -> TopicImage:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        raise errors.UnknownTopicId(f"no topic has the id {change.topic_id.hex()}")
    return image.topic_of(topic.name, change.partition)


def _check(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    leader: int,
    change: IsrChange,
) -> None:
    name = f"{topic.name}-{change.partition}"
    known = (partition.leader_epoch, partition.partition_epoch)
    if change.leader_epoch > known[0] or change.partition_epoch > known[1]:
        raise errors.NotController(f"this controller knows {name} only in epochs {known}")
    if change.leader_epoch < known[0]:
        raise errors.FencedLeaderEpoch(f"{name} is in leader epoch {known[0]}")
    if partition.leader != leader:
        raise errors.InvalidRequest(f"broker {partition.leader} leads {name}, not {leader}")
    if change.partition_epoch < known[1]:
        raise errors.InvalidUpdateVersion(f"{name} is in partition epoch {known[1]}")
    _check_members(image, topic, partition, change)


def _check_members(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, change: IsrChange
) -> None:
    members = [member.broker for member in change.isr]
    is_subset = set(members) <= set(partition.replicas) and len(set(members)) == len(members)
    if not is_subset or partition.leader not in members:
        raise errors.InvalidRequest(
            f"{members} cannot be the ISR of {topic.name}-{change.partition} under leader {partition.leader}"
        )
    for member in change.isr:
        broker = image.brokers.get(member.broker)
        reason = _reason_against(broker, member, (topic.id, change.partition))
        if reason is not None and member.broker != partition.leader:
            raise errors.IneligibleReplica(f"broker {member.broker} {reason}")


def _reason_against(
    broker: BrokerRegistration | None, member: InSync, replica: tuple[bytes, int]
) -> str | None:
    if broker is None:
        return "is not registered"
    if member.epoch not in (ANY_EPOCH, broker.epoch):
        return f"is registered in epoch {broker.epoch}, not {member.epoch}"
    if broker.is_leaving:
        return "is about to stop"
    return "has lost the disk of this replica" if replica in broker.offline else None


def _in_order(partition: PartitionImage, change: IsrChange) -> tuple[int, ...]:
    members = {member.broker for member in change.isr}
    return tuple(broker for broker in partition.replicas if broker in members)
