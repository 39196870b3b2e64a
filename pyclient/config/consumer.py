"""The keys of the consumer."""

from __future__ import annotations

from typing import Final

from pyclient.config.client import CLIENT, MINUTE
from pyclient.config.key import BOOL, INT, LIST, MAX_INT, MAX_LONG, OBJECT, STRING, Key
from pyclient.config.table import Table, table

CONSUMER: Final[Table] = table(
    "consumers",
    CLIENT,
    (
        Key("group.id", STRING, None, "the group whose members share the partitions of their topics; without it "
            "a consumer reads all partitions of its topics and commits nothing"),
        Key("group.instance.id", STRING, None,
            "makes the consumer a static member, which keeps its partitions over a restart (KIP-345)"),
        Key("group.protocol", STRING, "classic",
            "the group protocol; 'consumer' is the one of KIP-848", words=("classic", "consumer")),
        Key("group.remote.assignor", STRING, None, "the assignor on the broker, with group.protocol=consumer"),
        Key("partition.assignment.strategy", LIST, ("range", "cooperative-sticky"), "assignors in order of preference: "
            "range, roundrobin, sticky, cooperative-sticky"),
        Key("session.timeout.ms", INT, 45_000,
            "a member without a heartbeat for this time is removed from its group", 1, MAX_INT),
        Key("heartbeat.interval.ms", INT, 3000, "the time between heartbeats", 1, MAX_INT),
        Key("max.poll.interval.ms", INT, 5 * MINUTE,
            "a member without a poll for this time leaves its group", 1, MAX_INT),
        Key("max.poll.records", INT, 500, "the most records that one poll returns", 1, MAX_INT),
        Key("enable.auto.commit", BOOL, True, "positions are committed in the background"),
        Key("auto.commit.interval.ms", INT, 5000, "the time between these commits", 0, MAX_INT),
        Key("auto.offset.reset", STRING, "latest", "where to start without a valid position",
            words=("latest", "earliest", "none", "by_duration:")),
        Key("isolation.level", STRING, "read_uncommitted",
            "whether the consumer sees records of open and aborted transactions",
            words=("read_uncommitted", "read_committed")),
        Key("fetch.min.bytes", INT, 1, "the broker waits until it has this many bytes", 0, MAX_INT),
        Key("fetch.max.wait.ms", INT, 500, "the longest time that the broker waits for fetch.min.bytes", 0, MAX_INT),
        Key("fetch.max.bytes", INT, 50 << 20, "the most bytes in a response", 0, MAX_INT),
        Key("max.partition.fetch.bytes", INT, 1 << 20, "the most bytes of a partition in a response", 0, MAX_INT),
        Key("max.decompressed.batch.bytes", INT, 256 << 20, "the most bytes of an unpacked batch, or 64 times its "
            "compressed size if that is more; beyond this, BatchTooLarge", 1, MAX_INT),
        Key("check.crcs", BOOL, True, "whether to check the checksums of batches"),
        Key("allow.auto.create.topics", BOOL, True, "whether the broker may create a requested topic"),
        Key("exclude.internal.topics", BOOL, True, "whether patterns leave out internal topics"),
        Key("interceptor.classes", OBJECT, None, "objects with on_consume(records), on_commit(offsets)"),
        Key("key.deserializer", OBJECT, None, "a callable (bytes) or (topic, bytes) -> key, or a name: 'str', 'json'"),
        Key("value.deserializer", OBJECT, None, "a callable (bytes) or (topic, bytes) -> value, or a name: 'str', "
            "'json'"),
        Key("consumer.timeout.ms", INT, -1,
            "an iteration without a record for this time ends; -1: never", -1, MAX_LONG),
        Key("queued.max.bytes", INT, 64 << 20, "the most bytes to fetch ahead of poll()", 1, MAX_LONG),
    ),
)
