"""No step is larger than a write to ZooKeeper may be, for any lost disk and any request of a client."""

from __future__ import annotations

import msgspec
import pytest

from pybroker.cluster.decisions.plan import NewTopic, Step
from pybroker.cluster.decisions.topics import TopicController
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import (
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pybroker.config import BrokerConfig, Endpoint
from pybroker.store.interface import Create, Operation, Set

LIMIT = (1 << 20) - 1024
"""ZooKeeper's jute.maxbuffer of 1 MiB, without the bytes that ZooKeeper itself adds."""

LONGEST = 249

CONFIGS = (
    ("cleanup.policy", "compact,delete"),
    ("retention.ms", "604800000"),
    ("max.message.bytes", "10485760"),
    ("min.insync.replicas", "2"),
    ("segment.bytes", "1073741824"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("delete.retention.ms", "86400000"),
    ("message.timestamp.type", "LogAppendTime"),
)


def bytes_of(step: Step, image: MetadataImage) -> int:
    """Returns the bytes that ZooKeeper counts: paths, data, about 60 bytes per operation, and the journal's entry."""
    entry = Create(znodes.journal_path(1), journal.encode(step.delta, image, 7))
    operations: list[Operation] = [*step.operations, entry]
    data = sum(len(each.data) for each in operations if isinstance(each, (Create, Set)))
    return data + sum(60 + len(each.path) for each in operations)


def broker(id: int, offline: frozenset[tuple[bytes, int]] = frozenset()) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", f"kafka-{id}.example.com", 9092)
    return BrokerRegistration(id, 100 + id, (endpoint,), None, ("/data",), False, "b" * 36, False, offline)


def cluster(topics: int, partitions: int) -> MetadataImage:
    """Returns the image of three brokers and topics with the longest names; the first broker leads all partitions."""
    made = [
        TopicImage(
            f"{number:05d}".ljust(LONGEST, "x"),
            number.to_bytes(16, "big"),
            tuple(PartitionImage(index, 1, 5, 5, (1, 2, 3), (1, 2, 3)) for index in range(partitions)),
        )
        for number in range(1, topics + 1)
    ]
    return MetadataImage(
        version=5,
        controller_epoch=7,
        brokers={id: broker(id) for id in (1, 2, 3)},
        topics={topic.name: topic for topic in made},
        names={topic.id: topic.name for topic in made},
    )


def controller() -> TopicController:
    return TopicController(BrokerConfig({}), lambda: bytes(16), lambda: 0)


@pytest.mark.parametrize(("topics", "partitions"), [(9_600, 1), (300, 100)])
def test_lost_replicas_count_towards_the_size_of_a_write(topics: int, partitions: int) -> None:
    """Two of three brokers have lost thousands of replicas each. The last step names these replicas twice."""
    image = cluster(topics, partitions)
    lost = frozenset((topic.id, index) for topic in image.topics.values() for index in range(partitions))
    plan = controller().change_brokers(image, {1: broker(1, lost), 2: broker(2, lost), 3: broker(3)})
    assert max(bytes_of(step, image) for step in plan.steps) < LIMIT
    assert plan.steps[-1].delta.brokers[1] == broker(1, lost)
    assert len(znodes.encode_unfit(is_leaving=False, offline=lost)) < LIMIT


def test_many_topics_with_configurations_are_created() -> None:
    topics = [NewTopic(f"{number:05d}".ljust(LONGEST, "x"), 1, 3, configs=CONFIGS) for number in range(400)]
    image = cluster(0, 0)
    plan = controller().create_topics(image, topics)
    assert all(isinstance(result, TopicImage) for result in plan.results)
    assert max(bytes_of(step, image) for step in plan.steps) < LIMIT


def test_lost_replicas_are_read_in_the_format_of_this_and_the_previous_version() -> None:
    lost = frozenset({(bytes(16), 3), (bytes(16), 700), (b"b" * 16, 0)})
    assert znodes.decode_unfit(znodes.encode_unfit(is_leaving=True, offline=lost)) == (True, lost)
    old = b'{"leaving":false,"offline":[["AAAAAAAAAAAAAAAAAAAAAA",3],["AAAAAAAAAAAAAAAAAAAAAA",700]]}'
    assert znodes.decode_unfit(old) == (False, frozenset({(bytes(16), 3), (bytes(16), 700)}))
    image = MetadataImage()
    entry = journal.encode(MetadataDelta(brokers={1: broker(1, lost)}), image, 7)
    assert journal.decode(entry, image).brokers == {1: broker(1, lost)}
    fields = msgspec.msgpack.decode(entry)
    *rest, _, _, _, _ = fields["b"][0]
    fields["b"][0] = [*rest, sorted(lost)]  # and without min_isr, machine and features
    assert journal.decode(msgspec.msgpack.encode(fields), image).brokers == {1: broker(1, lost)}
