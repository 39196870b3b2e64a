"""Reassignments: partitions move to other brokers while clients write and read them (KIP-455).

A reassignment names the new replicas of a partition, its *target*. Until all added replicas are in sync, the partition
has the target's replicas and those to be removed. Then it has only the target, in a new leader epoch; if its leader is
not in the target, another one is elected. Any decision after which all added replicas are in sync completes the
reassignment: an ISR change, an election, or the request itself.

A new reassignment replaces one in progress. null cancels the reassignment and restores the replicas from before the
first one: those that are not ``adding``. An added replica that is no longer wanted is removed at once. But if it is in
sync, it is removed when the reassignment completes; until then it is both ``adding`` and ``removing``.

Pure functions: the controller writes what they decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from cy.counted import counted
from pybroker.cluster.decisions.elections import Rules, Standing, elect
from pybroker.cluster.decisions.plan import PartitionChanges, Plan
from pybroker.cluster.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError


class Reassignment(NamedTuple):
    """The new replicas of a partition; None cancels a reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


def alter_reassignments(
    image: MetadataImage,
    requests: Sequence[Reassignment],
    rules: Rules,
    *,
    may_change_factor: bool = True,
) -> Plan[list[KafkaError | None]]:
    """Begins or cancels reassignments. Returns None or an error for each request."""
    standing = Standing.of(image.brokers, image.brokers, image.boots)
    changes = PartitionChanges(image)
    results: list[KafkaError | None] = []
    times = Counter((request.topic, request.partition) for request in requests)
    for request in requests:
        try:
            topic = image.writable(image.topic_of(request.topic, request.partition))
            if times[request.topic, request.partition] > 1:
                raise errors.InvalidRequest("the request names this partition twice")
            partition = topic.partitions[request.partition]
            moved = _moved(image, partition, request, may_change_factor=may_change_factor)
            fit = standing.at(topic.id, request.partition).fit
            changes.add(topic, settled(partition, moved, fit, rules.min_isr(topic, moved)))
            results.append(None)
        except KafkaError as error:
            results.append(error)
    return Plan(results, changes.steps())


def _moved(
    image: MetadataImage,
    partition: PartitionImage,
    request: Reassignment,
    *,
    may_change_factor: bool,
) -> PartitionImage:
    target = request.replicas
    if target is None:
        return _taken_back(partition)
    _check_target(image, target)
    stable = [broker for broker in partition.replicas if broker not in partition.adding]
    if not may_change_factor and len(target) != len(stable):
        raise errors.InvalidReplicationFactor(
            f"{list(target)} has {counted(len(target), 'replica')}, but the partition has {len(stable)}"
        )
    return _towards(partition, target, stable)


def _check_target(image: MetadataImage, target: Sequence[int]) -> None:
    if not target:
        raise errors.InvalidReplicaAssignment("a partition must have at least one replica")
    if len(set(target)) != len(target):
        raise errors.InvalidReplicaAssignment(f"{list(target)} names a broker twice")
    unknown = [broker for broker in target if broker not in image.brokers]
    if unknown:
        raise errors.InvalidReplicaAssignment(f"broker {unknown[0]} is not registered")


def _towards(
    partition: PartitionImage, target: tuple[int, ...], stable: Sequence[int]
) -> PartitionImage:
    """Returns the partition with the target's replicas, and with the replicas to be removed that are still needed."""
    going = [broker for broker in partition.replicas if broker not in target]
    removing = tuple(broker for broker in going if broker in stable or broker in partition.isr)
    replicas = (*target, *removing)
    return replace(
        partition,
        replicas=replicas,
        adding=tuple(broker for broker in replicas if broker not in stable),
        removing=removing,
        elr=tuple(broker for broker in partition.elr if broker in replicas),
    )


def _taken_back(partition: PartitionImage) -> PartitionImage:
    """Returns the partition with its earlier replicas; added ones are removed as in a reassignment.

    If only an added replica is in sync, the removal takes a while, and the client may send null again.
    """
    if not partition.is_reassigned:
        raise errors.NoReassignmentInProgress("the partition is not being reassigned")
    stable = tuple(broker for broker in partition.replicas if broker not in partition.adding)
    return _towards(partition, stable, stable)


def settled(
    before: PartitionImage, after: PartitionImage, fit: Collection[int], min_isr: int
) -> PartitionImage:
    """Returns ``after``, which ``before`` has become, with its reassignment completed if possible."""
    if after.is_reassigned:
        after = completed(after, fit, min_isr)
    return fenced(before, after)


def completed(
    partition: PartitionImage, fit: Collection[int], min_isr: int
) -> PartitionImage:
    """Returns the partition with its reassignment completed, if all added replicas are in sync."""
    target = partition.target
    isr = tuple(broker for broker in partition.isr if broker in target)
    if not isr or not set(partition.joining) <= set(isr):
        return partition
    elr = tuple(broker for broker in partition.elr if broker in target)
    done = replace(partition, replicas=target, isr=isr, elr=elr, adding=(), removing=())
    if partition.leader in (*target, NO_LEADER):
        return done
    return elect(done, fit, min_isr=min_isr)


def fenced(before: PartitionImage, after: PartitionImage) -> PartitionImage:
    """Returns ``after``, in another leader epoch if a replica was removed.

    The log of a removed replica is deleted too. If its broker became a replica again in the same epoch, a delayed
    earlier fetch would tell the leader that the broker still has these records.
    """
    if after.leader_epoch > before.leader_epoch or set(before.replicas) <= set(after.replicas):
        return after
    return replace(after, leader_epoch=after.leader_epoch + 1)
