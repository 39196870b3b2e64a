"""What the controller decides, read from its plans: nothing here touches a store."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, Outcome, PartitionChanges, Plan, TopicName
from pybroker.cluster.decisions.topics import MAX_PARTITIONS_PER_REQUEST, TopicController
from pybroker.cluster.metadata.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    TopicImage,
)
from pybroker.config import BrokerConfig
from pybroker.store.interface import ANY_VERSION, Create, Delete, Set
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


def controller(settings: dict[str, str] | None = None) -> TopicController:
    ids = itertools.count(1)
    config = BrokerConfig(settings or {})
    return TopicController(config, lambda: next(ids).to_bytes(16, "big"), lambda: 0)


def brokers(*ids: int) -> dict[int, BrokerRegistration]:
    return {id: BrokerRegistration(id, 1, ()) for id in ids}


def image_of(*ids: int) -> MetadataImage:
    return MetadataImage(brokers=brokers(*ids), controller_id=ids[0], controller_epoch=1)


def after(image: MetadataImage, plan: Plan[Any]) -> MetadataImage:
    for step in plan.steps:
        image = image.apply(step.delta)
    return image


def create(image: MetadataImage, *requests: NewTopic) -> list[Outcome]:
    return controller().create_topics(image, requests).results


def test_a_topic_is_created_with_the_default_partitions_and_replicas() -> None:
    plan = controller({"num.partitions": "3", "default.replication.factor": "2"}).create_topics(
        image_of(1, 2), [NewTopic("t")]
    )
    [topic] = plan.results
    assert isinstance(topic, TopicImage)
    assert [len(p.replicas) for p in topic.partitions] == [2, 2, 2]
    assert all(p.leader == p.replicas[0] and p.isr == p.replicas for p in topic.partitions)
    paths = [op.path for op in plan.steps[0].operations]
    assert paths[:3] == ["/config/topics/t", "/brokers/topics/t", "/brokers/topics/t/partitions"]
    assert "/brokers/topics/t/partitions/2/state" in paths


def test_many_topics_are_created_by_one_write() -> None:
    plan = controller().create_topics(image_of(1), [NewTopic(f"t{n}") for n in range(100)])
    assert len(plan.steps) == 1


def test_an_invalid_topic_does_not_stop_the_creation_of_the_others() -> None:
    outcomes = create(image_of(1), NewTopic("ok"), NewTopic("bad/"), NewTopic("r", 1, 3))
    assert isinstance(outcomes[0], TopicImage)
    assert isinstance(outcomes[1], errors.InvalidTopicException)
    assert isinstance(outcomes[2], errors.InvalidReplicationFactor)


@pytest.mark.parametrize(
    "name", ["../x", ".", "..", "", "n" * 250, "a b", "ä", "a/b", "a\0", "a\n"]
)
def test_case_52_a_topic_name_that_is_unsafe_as_a_folder_name_is_refused(name: str) -> None:
    [outcome] = create(image_of(1), NewTopic(name))
    assert isinstance(outcome, errors.InvalidTopicException)


def test_topic_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    image = after(image_of(1), controller().create_topics(image_of(1), [NewTopic("a.b")]))
    [outcome] = create(image, NewTopic("a_b"))
    assert isinstance(outcome, errors.InvalidTopicException)
    first, second = create(image_of(1), NewTopic("x.y"), NewTopic("x_y"))
    assert isinstance(first, TopicImage)
    assert isinstance(second, errors.InvalidTopicException)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (NewTopic("t", 0, 1), errors.InvalidPartitions),
        (NewTopic("t", -2, 1), errors.InvalidPartitions),
        (NewTopic("t", 1, 0), errors.InvalidReplicationFactor),
        (NewTopic("t", MAX_PARTITIONS_PER_REQUEST + 1, 1), errors.PolicyViolation),
        (NewTopic("t", 2, -1, ((0, (1,)),)), errors.InvalidRequest),
        (NewTopic("t", -1, 1, ((0, (1,)),)), errors.InvalidRequest),
        (NewTopic("t", -1, -1, ((1, (1,)),)), errors.InvalidReplicaAssignment),
        (NewTopic("t", -1, -1, ((0, (1,)), (0, (1,)))), errors.InvalidReplicaAssignment),
        (NewTopic("t", -1, -1, ((0, ()),)), errors.InvalidReplicaAssignment),
        (NewTopic("t", -1, -1, ((0, (1, 1)),)), errors.InvalidReplicaAssignment),
        (NewTopic("t", -1, -1, ((0, (9,)),)), errors.InvalidReplicaAssignment),
        (NewTopic("t", 1, 1, configs=(("nope", "1"),)), errors.InvalidConfig),
        (NewTopic("t", 1, 1, configs=(("retention.ms", "x"),)), errors.InvalidConfig),
        (NewTopic("t", 1, 1, configs=(("retention.ms", None),)), errors.InvalidConfig),
        (NewTopic("__cluster_metadata", 1, 1), errors.InvalidRequest),
    ],
)
def test_an_invalid_topic_creation_is_refused_and_writes_nothing(
    request_: NewTopic, error: type[errors.KafkaError]
) -> None:
    plan = controller().create_topics(image_of(1), [request_])
    assert isinstance(plan.results[0], error)
    assert plan.steps == []


def test_a_manual_assignment_is_used_unchanged() -> None:
    [topic] = create(image_of(1, 2, 3), NewTopic("t", -1, -1, ((1, (3, 1)), (0, (2, 3)))))
    assert isinstance(topic, TopicImage)
    assert [p.replicas for p in topic.partitions] == [(2, 3), (3, 1)]


def test_a_topic_name_that_is_in_the_request_twice_is_refused_both_times() -> None:
    outcomes = create(image_of(1), NewTopic("t"), NewTopic("u"), NewTopic("t"))
    assert [type(o) for o in outcomes] == [errors.InvalidRequest, TopicImage, errors.InvalidRequest]


def test_a_topic_that_exists_is_refused() -> None:
    image = after(image_of(1), controller().create_topics(image_of(1), [NewTopic("t")]))
    assert isinstance(create(image, NewTopic("t"))[0], errors.TopicAlreadyExists)


def test_a_topic_created_again_has_another_topic_id() -> None:
    decider = controller()
    image = after(image_of(1), decider.create_topics(image_of(1), [NewTopic("t")]))
    first = image.topics["t"].id
    image = after(image, decider.delete_topics(image, [TopicName("t")]))
    assert image.topic_by_id(first) is None
    image = after(image, decider.create_topics(image, [NewTopic("t")]))
    assert image.topics["t"].id != first


def test_a_topic_is_deleted_by_name_or_id_and_its_child_nodes_go_first() -> None:
    image = after(image_of(1), controller().create_topics(image_of(1), [NewTopic("t", 2)]))
    plan = controller().delete_topics(image, [TopicName(id=image.topics["t"].id)])
    paths = [op.path for op in plan.steps[0].operations]
    assert all(isinstance(op, Delete) for op in plan.steps[0].operations[1:])
    for path in paths:
        assert not any(other.startswith(f"{path}/") for other in paths[paths.index(path) :])
    assert after(image, plan).topics == {}


def test_each_reason_for_a_failed_topic_deletion_has_its_own_error() -> None:
    image = after(image_of(1), controller().create_topics(image_of(1), [NewTopic("t")]))
    asked = [TopicName("no"), TopicName(id=b"x" * 16), TopicName(), TopicName("t", b"x" * 16)]
    outcomes = controller().delete_topics(image, [*asked, TopicName("t"), TopicName("t")]).results
    assert [type(outcome) for outcome in outcomes] == [
        errors.UnknownTopicOrPartition,
        errors.UnknownTopicId,
        *[errors.InvalidRequest] * 4,
    ]


def test_added_partitions_get_the_next_numbers() -> None:
    image = after(image_of(1, 2), controller().create_topics(image_of(1, 2), [NewTopic("t", 2, 2)]))
    plan = controller().create_partitions(image, [NewPartitions("t", 4)])
    grown = after(image, plan).topics["t"]
    assert [p.index for p in grown.partitions] == [0, 1, 2, 3]
    assert grown.partitions[:2] == image.topics["t"].partitions
    assert all(len(p.replicas) == 2 for p in grown.partitions)
    kinds = [type(op) for op in plan.steps[0].operations]
    assert kinds == [Set, Create, Create, Create, Create]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (NewPartitions("no", 4), errors.UnknownTopicOrPartition),
        (NewPartitions("t", 2), errors.InvalidPartitions),
        (NewPartitions("t", 1), errors.InvalidPartitions),
        (NewPartitions("t", 1 << 30), errors.PolicyViolation),
        (NewPartitions("t", 4, ((1,),)), errors.InvalidReplicaAssignment),
        (NewPartitions("t", 3, ((1, 2),)), errors.InvalidReplicaAssignment),
        (NewPartitions("t", 3, ((9,),)), errors.InvalidReplicaAssignment),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    request_: NewPartitions, error: type[errors.KafkaError]
) -> None:
    image = after(image_of(1), controller().create_topics(image_of(1), [NewTopic("t", 2)]))
    plan = controller().create_partitions(image, [request_])
    assert isinstance(plan.results[0], error)
    assert plan.steps == []


def three_brokers() -> MetadataImage:
    request = NewTopic("t", -1, -1, ((0, (1, 2, 3)), (1, (2, 3, 1))))
    return after(image_of(1, 2, 3), controller().create_topics(image_of(1, 2, 3), [request]))


def test_partitions_of_a_dead_broker_get_new_leaders_by_conditional_writes() -> None:
    image = three_brokers()
    plan = controller().change_brokers(image, brokers(2, 3))
    changed = after(image, plan)
    assert [p.leader for p in changed.topics["t"].partitions] == [2, 2]
    assert [p.isr for p in changed.topics["t"].partitions] == [(2, 3), (2, 3)]
    assert set(changed.brokers) == {2, 3}
    versions = [op.version for op in plan.steps[0].operations if isinstance(op, Set)]
    assert versions == [0, 0, ANY_VERSION]


def test_a_broker_with_a_new_epoch_was_restarted() -> None:
    image = three_brokers()
    again = {**image.brokers, 1: BrokerRegistration(1, 9, ())}
    changed = after(image, controller().change_brokers(image, again))
    assert [p.leader_epoch for p in changed.topics["t"].partitions] == [1, 0]


def test_preferred_leaders_lead_again_when_they_are_in_sync() -> None:
    image = after(three_brokers(), controller().change_brokers(three_brokers(), brokers(2, 3)))
    image = after(image, controller().change_brokers(image, brokers(1, 2, 3)))
    tps = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 7)]
    outcomes = controller().elect_leaders(image, tps, unclean=False).results
    assert [type(outcomes[tp]) for tp in tps] == [
        errors.PreferredLeaderNotAvailable,
        errors.ElectionNotNeeded,
        errors.UnknownTopicOrPartition,
    ]


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    image = after(three_brokers(), controller().change_brokers(three_brokers(), brokers(1)))
    image = after(image, controller().change_brokers(image, brokers(2)))
    assert [p.leader for p in image.topics["t"].partitions] == [NO_LEADER, NO_LEADER]
    tp = TopicPartition("t", 0)
    plan = controller().elect_leaders(image, [tp], unclean=True)
    assert plan.results == {tp: None}
    assert after(image, plan).topics["t"].partitions[0].leader == 2
    healthy = controller().elect_leaders(three_brokers(), [tp], unclean=True)
    assert isinstance(healthy.results[tp], errors.ElectionNotNeeded)


def test_a_partition_epoch_is_the_version_of_its_node_however_often_the_partition_changes() -> None:
    image = three_brokers()
    topic = image.topics["t"]
    changes = PartitionChanges(image)
    assert changes.add(topic, topic.partitions[1]) is topic.partitions[1]
    for isr in [(1,), (2,), (1,)]:
        changes.add(topic, replace(changes.current(topic, 0), isr=isr))
    [step] = changes.steps()
    [write] = step.operations
    assert isinstance(write, Set)
    assert write.version == topic.partitions[0].partition_epoch
    assert [p.partition_epoch for p in step.delta.changed["t"].partitions] == [write.version + 1, 0]
