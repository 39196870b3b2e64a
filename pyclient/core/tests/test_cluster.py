"""The metadata state machine, without I/O."""

from __future__ import annotations

from pyclient.core.cluster import Broker, Cluster
from pyclient.core.tests.scripted import topic
from pyclient.protocol import ZERO_UUID, Metadata
from pyclient.protocol.errors import LeaderNotAvailable, UnknownTopicOrPartition
from pyclient.topic_partition import TopicPartition

A, B = bytes([1]) * 16, bytes([2]) * 16
T0 = TopicPartition("t", 0)


def response(*topics: Metadata.Response.MetadataResponseTopic) -> Metadata.Response:
    row = Metadata.Response.MetadataResponseBroker
    brokers = [row(node_id=id, host="h", port=id) for id in (1, 2, 3)]
    return Metadata.Response(brokers=brokers, topics=list(topics))


def cluster_of(*topics: Metadata.Response.MetadataResponseTopic) -> Cluster:
    cluster = Cluster()
    cluster.update(response(*topics), None)
    return cluster


def test_an_empty_cluster_knows_no_partition_leader_or_topic_id():
    cluster = Cluster()
    assert cluster.partitions("t") is None
    assert cluster.leader(T0) is None
    assert cluster.topic_id("t") == ZERO_UUID
    assert cluster.topic_name(A) is None


def test_partitions_are_ordered_by_number():
    row = topic("t", 3, 1)
    row.partitions.reverse()
    found = cluster_of(row).partitions("t")
    assert [each.partition for each in found] == [0, 1, 2]


def test_a_partition_beyond_the_last_has_no_leader():
    cluster = cluster_of(topic("t", 1, 1))
    assert cluster.leader(TopicPartition("t", 1)) is None
    assert cluster.leader(TopicPartition("t", -1)) is None


def test_an_older_leader_epoch_does_not_replace_a_newer_one():
    cluster = cluster_of(topic("t", 1, 1, epoch=5, topic_id=A))
    cluster.update(response(topic("t", 1, 2, epoch=4, topic_id=A)), ["t"])
    assert cluster.leader(T0) == (1, 5)
    cluster.update(response(topic("t", 1, 2, epoch=6, topic_id=A)), ["t"])
    assert cluster.leader(T0) == (2, 6)


def test_a_topic_created_again_starts_from_new_metadata():
    cluster = cluster_of(topic("t", 1, 1, epoch=5, topic_id=A))
    cluster.update(response(topic("t", 1, 2, epoch=0, topic_id=B)), ["t"])
    assert cluster.leader(T0) == (2, 0)
    assert (cluster.topic_name(A), cluster.topic_name(B)) == (None, "t")


def test_a_leader_from_another_response_is_accepted_if_newer_and_known():
    cluster = cluster_of(topic("t", 1, 1, epoch=5))
    assert not cluster.leader_changed(T0, 2, 5)
    assert not cluster.leader_changed(T0, 9, 6)
    assert cluster.leader_changed(T0, 2, 6)
    assert cluster.leader(T0) == (2, 6)
    cluster.add_broker(Broker(9, "h", 9))
    assert cluster.leader_changed(T0, 9, 7)


def test_listeners_are_called_only_for_topics_that_changed():
    cluster = cluster_of(topic("t", 1, 1), topic("u", 1, 1))
    heard: list[frozenset[str]] = []
    end = cluster.subscribe(lambda _, topics: heard.append(topics))
    cluster.update(response(topic("t", 2, 1), topic("u", 1, 1)), ["t", "u"])
    cluster.update(response(topic("t", 2, 1), topic("u", 1, 1)), ["t", "u"])
    end()
    cluster.update(response(topic("t", 3, 1)), ["t"])
    assert heard == [frozenset({"t"})]


def test_a_deleted_topic_is_forgotten_but_a_leaderless_one_is_kept():
    cluster = cluster_of(topic("t", 1, 1), topic("u", 1, 1))
    assert cluster.update(response(topic("t", -3, 1), topic("u", -5, 1)), ["t", "u"]) == {"t"}
    assert cluster.partitions("t") is None
    assert cluster.error("t").code == UnknownTopicOrPartition.code
    assert len(cluster.partitions("u")) == 1
    assert cluster.error("u").code == LeaderNotAvailable.code


def test_a_topic_missing_from_a_list_of_all_topics_is_forgotten():
    cluster = cluster_of(topic("t", 1, 1), topic("u", 1, 1))
    assert cluster.update(response(topic("u", 1, 1)), ["u"]) == frozenset()
    assert cluster.update(response(topic("u", 1, 1)), None) == {"t"}
    assert cluster.topics() == ["u"]


def test_a_response_without_brokers_keeps_the_known_brokers():
    cluster = cluster_of()
    cluster.update(Metadata.Response(), [])
    assert sorted(cluster.brokers) == [1, 2, 3]


def test_every_update_has_a_version_of_its_own():
    cluster = cluster_of(topic("t", 1, 1))
    before = cluster.version
    cluster.update(response(topic("t", 1, 1)), ["t"])
    assert cluster.version > before


def test_racks_of_a_partition_are_those_of_its_known_replicas():
    row = topic("t", 2, 1)
    row.partitions[0].replica_nodes, row.partitions[1].replica_nodes = [1, 2, 3], [9]
    told = response(row)
    told.brokers[0].rack, told.brokers[1].rack = "a", "b"
    cluster = Cluster()
    assert cluster.racks("t") == []
    cluster.update(told, None)
    assert cluster.racks("t") == [{"a", "b"}, set()]
