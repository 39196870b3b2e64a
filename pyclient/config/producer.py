"""The keys of the producer."""

from __future__ import annotations

from typing import Final

from pyclient.config.client import CLIENT, MINUTE
from pyclient.config.key import BOOL, INT, MAX_INT, MAX_LONG, OBJECT, STRING, Key
from pyclient.config.table import Table, table

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER: Final[Table] = table(
    CLIENT,
    (
        Key("acks", STRING, "all", "who must have a batch before it counts: nobody, the leader, all in-sync replicas",
            words=("all", "-1", "0", "1")),
        Key("retries", INT, MAX_INT, "how often a batch is sent again", 0, MAX_INT),
        Key("delivery.timeout.ms", INT, 2 * MINUTE, "send() to report, everything included", 0, MAX_INT),
        Key("batch.size", INT, 16_384, "bytes of a batch; it goes when it is full", 0, MAX_INT),
        Key("linger.ms", INT, 5, "or after this time", 0, MAX_LONG),
        Key("buffer.memory", INT, 32 << 20, "bytes of records that may wait; then send() waits", 0, MAX_LONG),
        Key("max.block.ms", INT, MINUTE, "how long send() may wait, then BufferExhausted", 0, MAX_LONG),
        Key("max.request.size", INT, 1 << 20, "bytes of a request, and of a record", 0, MAX_INT),
        Key("max.in.flight.requests.per.connection", INT, 5, "requests a broker may have at once", 1, MAX_INT),
        Key("enable.idempotence", BOOL, True, "each record is written exactly once, in order"),
        Key("transactional.id", STRING, None, "makes the producer transactional; the name outlives the process"),
        Key("transaction.timeout.ms", INT, MINUTE, "the coordinator aborts a transaction after this time", 1, MAX_INT),
        Key("compression.type", STRING, "none", "the codec of batches", words=CODECS),
        Key("compression.gzip.level", INT, -1, "1 to 9; -1 is gzip's default", -1, 9),
        Key("compression.lz4.level", INT, 9, "1 to 17", 1, 17),
        Key("compression.zstd.level", INT, 3, "-131072 to 22", -131_072, 22),
        Key("partitioner.class", OBJECT, None, "None (by key, sticky without), 'round_robin', or an object"),
        Key("partitioner.ignore.keys", BOOL, False, "records with keys are spread like those without"),
        Key("partitioner.adaptive.partitioning.enable", BOOL, True, "slow brokers get less (KIP-794)"),
        Key("partitioner.availability.timeout.ms", INT, 0,
            "a broker that takes no request for so long gets only records with keys; 0: never", 0, MAX_LONG),
        Key("interceptor.classes", OBJECT, None, "objects with on_send(record), on_acknowledgement(metadata, error)"),
        Key("key.serializer", OBJECT, None, "a callable (topic, key) -> bytes, or a name: 'str', 'json'"),
        Key("value.serializer", OBJECT, None, "a callable (topic, value) -> bytes, or a name: 'str', 'json'"),
    ),
)
