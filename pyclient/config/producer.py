"""The keys of the producer."""

from __future__ import annotations

from typing import Final

from pyclient.config.client import CLIENT, MINUTE
from pyclient.config.key import BOOL, INT, MAX_INT, MAX_LONG, OBJECT, STRING, Key
from pyclient.config.table import Table, table

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER: Final[Table] = table(
    "producers",
    CLIENT,
    (
        Key("acks", STRING, "all",
            "which replicas must have a batch before its ack: 0 none, 1 the leader, all the in-sync ones",
            words=("all", "-1", "0", "1")),
        Key("retries", INT, MAX_INT, "how often a failed batch is sent again", 0, MAX_INT),
        Key("delivery.timeout.ms", INT, 2 * MINUTE, "the longest time from send() to the delivery report", 0, MAX_INT),
        Key("batch.size", INT, 16_384, "the bytes of a batch; a full batch is sent", 0, MAX_INT),
        Key("linger.ms", INT, 5, "how long a batch that is not full waits for more records", 0, MAX_LONG),
        Key("buffer.memory", INT, 32 << 20,
            "the bytes of unsent records; if they are reached, send() waits", 0, MAX_LONG),
        Key("max.block.ms", INT, MINUTE, "how long send() may wait; then it raises BufferExhausted", 0, MAX_LONG),
        Key("metadata.max.idle.ms", INT, 5 * MINUTE, "a topic without a record for this time is forgotten",
            5000, MAX_LONG),
        Key("max.request.size", INT, 1 << 20, "the most bytes of a request and of a record", 0, MAX_INT),
        Key("max.in.flight.requests.per.connection", INT, 5, "the most unanswered requests to one broker", 1, MAX_INT),
        Key("enable.idempotence", BOOL, True, "each record is written exactly once, in order"),
        Key("transactional.id", STRING, None, "makes the producer transactional; the name is kept over restarts"),
        Key("transaction.timeout.ms", INT, MINUTE, "after this time the coordinator aborts a transaction", 1, MAX_INT),
        Key("compression.type", STRING, "none", "the codec of batches", words=CODECS),
        Key("compression.gzip.level", INT, -1, "1 to 9; -1 is gzip's default", -1, 9),
        Key("compression.lz4.level", INT, 9, "1 to 17", 1, 17),
        Key("compression.zstd.level", INT, 3, "-131072 to 22", -131_072, 22),
        Key("partitioner.class", OBJECT, None,
            "None: the hash of the key chooses, and records without a key stay on one partition for a batch; "
            "'round_robin'; or a function"),
        Key("partitioner.ignore.keys", BOOL, False, "whether to spread records with keys like those without"),
        Key("partitioner.adaptive.partitioning.enable", BOOL, True, "whether slow brokers get fewer records (KIP-794)"),
        Key("partitioner.availability.timeout.ms", INT, 0,
            "a broker that accepts no request for this time gets only records with keys; 0: never", 0, MAX_LONG),
        Key("interceptor.classes", OBJECT, None, "objects with on_send(record), on_acknowledgement(metadata, error)"),
        Key("key.serializer", OBJECT, None, "a callable (key) or (topic, key) -> bytes, or a name: 'str', 'json'"),
        Key("value.serializer", OBJECT, None, "a callable (value) or (topic, value) -> bytes, or a name: 'str', "
            "'json'"),
    ),
)
