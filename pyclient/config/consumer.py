"""The keys of the consumer."""

from __future__ import annotations

from typing import Final

from pyclient.config.client import CLIENT, MINUTE
from pyclient.config.key import BOOL, INT, LIST, MAX_INT, MAX_LONG, OBJECT, STRING, Key
from pyclient.config.table import Table, table

CONSUMER: Final[Table] = table(
    CLIENT,
    (
        Key("group.id", STRING, None, "the group whose members share the partitions; needed to subscribe and commit"),
        Key("group.instance.id", STRING, None, "a static member: keeps its partitions over a restart (KIP-345)"),
        Key("group.protocol", STRING, "classic", "'consumer' is KIP-848's", words=("classic", "consumer")),
        Key("group.remote.assignor", STRING, None, "the broker's assignor with group.protocol=consumer"),
        Key("partition.assignment.strategy", LIST, ("range", "cooperative-sticky"), "assignors, the best first: "
            "range, roundrobin, sticky, cooperative-sticky"),
        Key("session.timeout.ms", INT, 45_000, "without a heartbeat for so long a member is out", 1, MAX_INT),
        Key("heartbeat.interval.ms", INT, 3000, "between heartbeats", 1, MAX_INT),
        Key("max.poll.interval.ms", INT, 5 * MINUTE, "without a poll for so long the member leaves", 1, MAX_INT),
        Key("max.poll.records", INT, 500, "records of one poll", 1, MAX_INT),
        Key("enable.auto.commit", BOOL, True, "polled positions are committed in the background"),
        Key("auto.commit.interval.ms", INT, 5000, "between such commits", 0, MAX_INT),
        Key("auto.offset.reset", STRING, "latest", "where to start without a valid position",
            words=("latest", "earliest", "none", "by_duration:")),
        Key("isolation.level", STRING, "read_uncommitted", "whether records of open and aborted transactions are seen",
            words=("read_uncommitted", "read_committed")),
        Key("fetch.min.bytes", INT, 1, "the broker waits for so many bytes …", 0, MAX_INT),
        Key("fetch.max.wait.ms", INT, 500, "… at most for this time", 0, MAX_INT),
        Key("fetch.max.bytes", INT, 50 << 20, "bytes of a response", 0, MAX_INT),
        Key("max.partition.fetch.bytes", INT, 1 << 20, "bytes of a partition in a response", 0, MAX_INT),
        Key("check.crcs", BOOL, True, "checksums of batches are checked"),
        Key("allow.auto.create.topics", BOOL, True, "a topic that is asked for may be created by the broker"),
        Key("exclude.internal.topics", BOOL, True, "a pattern never matches internal topics"),
        Key("interceptor.classes", OBJECT, None, "objects with on_consume(records), on_commit(offsets)"),
        Key("key.deserializer", OBJECT, None, "a callable (topic, bytes) -> key, or a name: 'str', 'json'"),
        Key("value.deserializer", OBJECT, None, "a callable (topic, bytes) -> value, or a name: 'str', 'json'"),
        Key("queued.max.bytes", INT, 64 << 20, "bytes that are fetched ahead of poll()", 1, MAX_LONG),
    ),
)
