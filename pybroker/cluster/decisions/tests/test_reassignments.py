"""Partitions move to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pybroker.cluster.decisions.isr_changes import InSync, IsrChange, alter_partition
from pybroker.cluster.decisions.plan import Step
from pybroker.cluster.decisions.reassignments import Reassignment, alter_reassignments
from pybroker.cluster.decisions.topics import TopicController
from pybroker.cluster.metadata.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pybroker.config import BrokerConfig
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class OneIsEnough:
    def min_isr(self, topic: TopicImage, partition: PartitionImage) -> int:
        return 1

    def is_unclean_allowed(self, topic: TopicImage) -> bool:
        return False


RULES = OneIsEnough()
BROKERS = {id: BrokerRegistration(id, 1, ()) for id in range(1, 7)}
CONTROLLER = TopicController(BrokerConfig({}), lambda: bytes(16), lambda: 0)


class State:
    """One partition on brokers 1 to 6, as a controller has it."""

    def __init__(self, replicas: tuple[int, ...], isr: tuple[int, ...] | None = None) -> None:
        first = PartitionImage(0, replicas[0], 5, 7, replicas, isr or replicas)
        topic = TopicImage("t", bytes(16), (first,))
        self.image = MetadataImage(
            brokers=BROKERS, topics={"t": topic}, names={topic.id: "t"}, controller_epoch=1
        )

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics["t"].partitions[0]

    def move(self, *target: int, may_change_factor: bool = True) -> object:
        return self._alter(target, may_change_factor)

    def take_back(self) -> object:
        return self._alter(None, True)

    def _alter(self, target: tuple[int, ...] | None, may_change_factor: bool) -> object:
        request = Reassignment("t", 0, target)
        plan = alter_reassignments(
            self.image, [request], RULES, may_change_factor=may_change_factor
        )
        self.apply(plan.steps)
        return plan.results[0]

    def in_sync(self, *isr: int) -> object:
        known = self.partition
        members = tuple(InSync(broker) for broker in isr)
        change = IsrChange(bytes(16), 0, known.leader_epoch, known.partition_epoch, members)
        plan = alter_partition(self.image, known.leader, 1, [change], RULES)
        self.apply(plan.steps)
        return plan.results[0]

    def change(self, **fields: Any) -> None:
        """Changes these fields of the partition."""
        topic = self.image.topics["t"]
        changed = topic._replace(partitions=(replace(self.partition, **fields),))
        self.image = self.image.apply(MetadataDelta({"t": changed}))

    def only_alive(self, *ids: int) -> None:
        """Leaves only these brokers alive."""
        brokers = {id: self.image.brokers[id] for id in ids}
        self.apply(CONTROLLER.change_brokers(self.image, brokers).steps)

    def apply(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self.image = self.image.apply(step.delta)


def test_s98_a_partition_has_old_and_new_replicas_until_the_new_ones_are_in_sync() -> None:
    state = State((1, 2))
    assert state.move(3, 4) is None
    moving = state.partition
    assert moving.replicas == (3, 4, 1, 2)
    assert (moving.adding, moving.removing) == ((3, 4), (1, 2))
    assert (moving.leader, moving.leader_epoch, moving.partition_epoch) == (1, 5, 8)
    state.in_sync(1, 2, 3)
    assert state.partition.adding == (3, 4)
    assert isinstance(state.in_sync(1, 2, 3, 4), errors.NewLeaderElected)
    done = state.partition
    assert (done.replicas, done.isr, done.leader) == ((3, 4), (3, 4), 3)
    assert (done.adding, done.removing) == ((), ())
    assert (done.leader_epoch, done.partition_epoch) == (6, 10)


def test_s98_a_reassignment_to_more_replicas_keeps_the_leader() -> None:
    state = State((1,))
    state.move(1, 2, 3)
    assert isinstance(state.in_sync(1, 2, 3), PartitionImage)
    assert (state.partition.replicas, state.partition.leader) == ((1, 2, 3), 1)
    assert state.partition.leader_epoch == 5


def test_a_reassignment_to_fewer_or_reordered_replicas_completes_at_once() -> None:
    state = State((1, 2, 3))
    state.move(2, 1)
    assert (state.partition.replicas, state.partition.isr) == ((2, 1), (1, 2))
    assert (state.partition.leader, state.partition.removing) == (1, ())
    state.move(2)
    assert (state.partition.replicas, state.partition.leader) == ((2,), 2)


def test_the_removal_of_a_replica_raises_the_leader_epoch() -> None:
    """Found by the simulator: the broker came back as a replica with an empty log, and an old fetch of it counted."""
    state = State((1, 2, 3))
    state.move(1, 2)
    assert (state.partition.leader, state.partition.leader_epoch) == (1, 6)
    state.move(1, 2, 3)
    assert state.partition.leader_epoch == 6, "who comes is fenced by nothing"
    state.take_back()
    assert (state.partition.replicas, state.partition.leader_epoch) == ((1, 2), 7)


def test_the_last_in_sync_replica_stays_until_another_is_in_sync() -> None:
    state = State((1, 2), (1,))
    state.move(2)
    assert state.partition.replicas == (2, 1)
    assert state.partition.removing == (1,)
    assert isinstance(state.in_sync(1, 2), errors.NewLeaderElected)
    assert (state.partition.replicas, state.partition.leader) == ((2,), 2)


def test_a_reassignment_is_cancelled() -> None:
    state = State((1, 2))
    assert isinstance(state.take_back(), errors.NoReassignmentInProgress)
    state.move(3, 4)
    state.in_sync(1, 2, 3)
    assert state.take_back() is None
    assert (state.partition.replicas, state.partition.isr) == ((1, 2), (1, 2))
    assert state.partition.adding == ()


def test_a_new_reassignment_replaces_one_that_is_under_way() -> None:
    state = State((1, 2))
    state.move(3, 4)
    state.move(5, 1)
    assert set(state.partition.replicas) == {5, 1, 2}
    assert (state.partition.adding, state.partition.removing) == ((5,), (2,))
    state.in_sync(1, 2, 5)
    assert (state.partition.replicas, state.partition.leader) == ((5, 1), 1)


def test_a_cancelled_reassignment_removes_an_added_replica_that_is_in_sync() -> None:
    """The defect: the added replica counted as an original one. null left four replicas, and three were refused."""
    state = State((1, 2, 3))
    state.move(4, 5, 6)
    state.in_sync(1, 2, 3, 4)
    assert state.move(1, 5, 6) is None
    assert state.partition.joining == (5, 6)
    assert set(state.partition.replicas) == {1, 2, 3, 4, 5, 6}
    back = State((1, 2, 3))
    back.image = state.image
    assert back.move(1, 2, 3, may_change_factor=False) is None
    assert state.take_back() is None
    for partition in (state.partition, back.partition):
        assert (partition.replicas, partition.isr) == ((1, 2, 3), (1, 2, 3))
        assert not partition.is_reassigned


def test_a_reassignment_can_be_cancelled_twice() -> None:
    state = State((1, 2))
    state.move(3, 4)
    state.in_sync(1, 2, 3)
    state.change(leader=3, isr=(3,))
    assert state.take_back() is None
    once = state.partition
    assert (once.target, once.replicas, once.joining) == ((1, 2), (1, 2, 3), ())
    assert state.take_back() is None
    assert replace(state.partition, partition_epoch=once.partition_epoch) == once
    state.in_sync(3, 1)
    assert (state.partition.replicas, state.partition.leader) == ((1, 2), 1)


def test_an_election_completes_a_reassignment() -> None:
    """The defect: the reassignment never ended. No replica was left whose return could have changed the ISR."""
    state = State((1, 2, 3))
    state.change(leader=2, isr=(2,), elr=(1,), replicas=(1, 2, 3), removing=(2, 3))
    state.only_alive(1)
    done = state.partition
    assert (done.leader, done.replicas, done.isr, done.elr) == (1, (1,), (1,), ())
    assert not done.is_reassigned
    assert (done.leader_epoch, done.partition_epoch) == (6, 8)


def test_an_unclean_election_completes_a_reassignment() -> None:
    state = State((1, 2, 3))
    state.change(leader=NO_LEADER, isr=(2,), replicas=(1, 2, 3), removing=(2, 3))
    state.only_alive(1, 4)
    assert state.partition.is_reassigned
    tp = TopicPartition("t", 0)
    plan = CONTROLLER.elect_leaders(state.image, [tp], unclean=True)
    assert plan.results == {tp: None}
    state.apply(plan.steps)
    assert (state.partition.replicas, state.partition.leader) == ((1,), 1)
    assert not state.partition.is_reassigned


def test_impossible_targets_of_a_reassignment_are_refused() -> None:
    state = State((1, 2))
    before = state.partition
    assert isinstance(state.move(), errors.InvalidReplicaAssignment)
    assert isinstance(state.move(1, 1), errors.InvalidReplicaAssignment)
    assert isinstance(state.move(1, 9), errors.InvalidReplicaAssignment)
    refused = state.move(1, 2, 3, may_change_factor=False)
    assert isinstance(refused, errors.InvalidReplicationFactor)
    unknown = alter_reassignments(state.image, [Reassignment("t", 1, (1,))], RULES)
    assert isinstance(unknown.results[0], errors.UnknownTopicOrPartition)
    assert state.partition == before


def test_a_partition_that_a_request_names_twice_is_refused_both_times() -> None:
    """The defect: its epoch grew by two, but its node was written once, so no later change could be written."""
    state = State((1, 2))
    other = replace(state.partition, index=1)
    topic = state.image.topics["t"]._replace(partitions=(state.partition, other))
    image = state.image.apply(MetadataDelta({"t": topic}))
    twice = [Reassignment("t", 0, (3, 4)), Reassignment("t", 1, (3, 4)), Reassignment("t", 0, (5, 6))]
    plan = alter_reassignments(image, twice, RULES)
    assert [type(result) for result in plan.results] == [errors.InvalidRequest, type(None), errors.InvalidRequest]
    [step] = plan.steps
    assert [op.path for op in step.operations] == ["/brokers/topics/t/partitions/1/state", "/brokers/topics/t"]


def test_proposals_for_moving_partitions_do_not_scan_all_lost_replicas() -> None:
    class Counted(frozenset[tuple[bytes, int]]):
        walks = 0

        def __iter__(self) -> Iterator[tuple[bytes, int]]:
            Counted.walks += 1
            return super().__iter__()

    state = State((1, 2))
    state.move(3, 4)
    brokers = {**BROKERS, 6: BROKERS[6]._replace(offline=Counted({(bytes(16), 9)}))}
    state.image = state.image.apply(MetadataDelta(brokers=brokers))
    Counted.walks = 0
    state.in_sync(1, 2, 3)
    assert state.partition.isr == (3, 1, 2)
    assert Counted.walks == 0


targets = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


@given(targets, st.lists(st.none() | targets | st.sets(st.integers(1, 6)), max_size=10))
def test_in_any_history_of_reassignments_the_leader_is_in_the_isr_and_the_isr_in_the_replicas(
    replicas: tuple[int, ...], history: list[tuple[int, ...] | set[int] | None]
) -> None:
    state = State(replicas)
    for event in history:
        before = state.partition
        if event is None:
            state.take_back()
        elif isinstance(event, set):
            isr = [b for b in before.replicas if b in event or b == before.leader]
            state.in_sync(*isr)
        else:
            state.move(*event)
        after = state.partition
        assert after.leader != NO_LEADER
        assert after.leader in after.isr
        assert set(after.isr) <= set(after.replicas)
        assert len(set(after.replicas)) == len(after.replicas)
        assert set(after.adding) <= set(after.replicas)
        assert not set(after.joining) & set(after.removing)
        changed = replace(after, partition_epoch=before.partition_epoch) != before
        assert after.partition_epoch >= before.partition_epoch + changed
        assert after.partition_epoch <= before.partition_epoch + 1


@given(targets, st.lists(targets | st.sets(st.integers(1, 6)) | st.integers(1, 6), max_size=10), st.integers(1, 2))
def test_a_cancelled_reassignment_restores_the_original_replicas_in_any_history(
    replicas: tuple[int, ...], history: list[tuple[int, ...] | set[int] | int], nulls: int
) -> None:
    """In ``history``, a tuple is a request, and a set has the replicas that are now in sync. A number is a broker that
    dies, and comes back when another one leads.
    """
    state = State(replicas)
    original = set(replicas)
    for event in history:
        if isinstance(event, int):
            state.only_alive(*{1, 2, 3, 4, 5, 6} - {event})
            state.apply(CONTROLLER.change_brokers(state.image, BROKERS).steps)
        elif isinstance(event, set):
            leader = state.partition.leader
            state.in_sync(*(b for b in state.partition.replicas if b in event or b == leader))
        else:
            state.move(*event)
        if not state.partition.is_reassigned:
            original = set(state.partition.replicas)
        assert set(state.partition.replicas) - set(state.partition.adding) == original
    for _ in range(nulls):
        state.take_back()
        assert set(state.partition.target) == original
    while state.partition.is_reassigned:
        state.in_sync(*state.partition.replicas)
    assert set(state.partition.replicas) == original
