"""The hash that shows changes of topics, compared with values of Kafka's own library (hash4j 0.22)."""

from __future__ import annotations

import struct

from pybroker.cluster.metadata.image import BrokerRegistration, MetadataDelta, MetadataImage
from pybroker.coordinator.group.consumer.subscriptions.topics import Topics, topic_hash
from pybroker.coordinator.group.consumer.tests.driver import image_of, topic_image

OF_ONE_PARTITION = -641006839446438350
OF_TWO_WITH_RACKS = 2659807614056552564
OF_BOTH = -3885355971288836939


def test_a_topic_has_kafkas_hash() -> None:
    topic = topic_image("tö€pic", 1, 7)
    assert topic_hash(topic, {}) == OF_ONE_PARTITION
    assert topic_hash(topic_image("t", 2, 7 << 64), {1: "rack"}) == OF_TWO_WITH_RACKS


def test_a_group_has_the_hash_of_its_topics_in_order_of_their_names() -> None:
    one, other = topic_image("a", 1, 7), topic_image("b", 2, 8)
    image = MetadataImage().apply(MetadataDelta(changed={"b": other, "a": one}))
    topics = Topics(lambda: image)
    assert topics.hash_of(["b", "a", "missing"]) == OF_BOTH
    assert topics.hash_of(["missing"]) == 0


def test_the_hash_follows_partitions_racks_and_the_topics_id() -> None:
    image = image_of(t=1)
    topics = Topics(lambda: image)
    seen = {topics.hash_of(["t"])}
    for delta in (
        MetadataDelta(changed={"t": topic_image("t", 2, 1)}),
        MetadataDelta(brokers={1: BrokerRegistration(1, 1, (), "rack")}),
        MetadataDelta(changed={"t": topic_image("t", 2, 9)}),
    ):
        image = image.apply(delta)
        seen.add(topics.hash_of(["t"]))
    assert len(seen) == 4
    image = image.apply(MetadataDelta(changed={"u": topic_image("u", 1, 10)}))
    assert topics.hash_of(["t"]) in seen


def test_new_topics_are_noticed_and_other_changes_are_not() -> None:
    image = image_of(t=1)
    topics = Topics(lambda: image)
    before = topics.grown_at
    image = image.apply(MetadataDelta(changed={"t": topic_image("t", 2, 1)}))
    assert topics.grown_at == before
    image = image.apply(MetadataDelta(changed={"u": topic_image("u", 1, 2)}))
    assert topics.grown_at == image.version


def test_ids_are_found_for_names_that_exist() -> None:
    image = image_of(t=1)
    assert Topics(lambda: image).ids(["t", "missing"]) == {struct.pack(">QQ", 0, 1)}
