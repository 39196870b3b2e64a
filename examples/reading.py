"""A topic from its beginning to where it ends now: how state that is kept in a topic is restored."""

from __future__ import annotations

from collections.abc import Iterator

from pyclient import Admin, Consumer, Record, TopicPartition
from pyclient.admin import OffsetSpec


def read(bootstrap: str, topic: str, isolation_level: str = "read_committed") -> Iterator[Record]:
    """All records that a topic has now, partition by partition as they come; waits until transactions that are open
    now have ended.
    """
    with (
        Admin(bootstrap) as admin,
        Consumer(bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest") as consumer,
    ):
        partitions = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        consumer.assign(partitions)
        while any(consumer.position(each) < end.offset for each, end in ends.items()):
            yield from consumer.poll(1.0)
