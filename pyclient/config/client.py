"""The keys that producer, consumer and admin share."""

from __future__ import annotations

from typing import Final

from pyclient.config.key import BOOL, INT, LIST, MAX_INT, MAX_LONG, STRING, Key
from pyclient.config.security import PROTOCOL, SASL, SSL

MINUTE: Final = 60_000
IDLE: Final = Key(
    "connections.max.idle.ms", INT, 9 * MINUTE, "unused connections are closed after this time", 1, MAX_LONG
)

CLIENT: Final = (
    Key("bootstrap.servers", LIST, (), "host:port, comma-separated: the servers to contact first"),
    Key("client.id", STRING, "pyclient", "the name that brokers see in requests"),
    Key("client.rack", STRING, "", "where the client runs; a consumer then reads from a replica there (KIP-392)"),
    PROTOCOL,
    *SSL,
    *SASL,
    Key("request.timeout.ms", INT, 30_000, "how long to wait for a response", 1, MAX_INT),
    Key("default.api.timeout.ms", INT, MINUTE, "how long a call may take, retries included", 0, MAX_INT),
    Key("retry.backoff.ms", INT, 100, "the first wait before a retry", 0, MAX_LONG),
    Key("retry.backoff.max.ms", INT, 1000, "the longest wait before a retry", 0, MAX_LONG),
    Key("reconnect.backoff.ms", INT, 50, "the first wait before reconnecting to a broker", 0, MAX_LONG),
    Key("reconnect.backoff.max.ms", INT, 1000, "the longest wait before reconnecting", 0, MAX_LONG),
    Key("socket.connection.setup.timeout.ms", INT, 10_000, "the first time limit for connecting", 1, MAX_LONG),
    Key("socket.connection.setup.timeout.max.ms", INT, 30_000,
            "the longest time limit for connecting; it doubles after failures", 1, MAX_LONG),
    IDLE,
    Key("metadata.max.age.ms", INT, 5 * MINUTE, "metadata is refreshed at least this often", 1, MAX_LONG),
    Key("metadata.recovery.strategy", STRING, "rebootstrap", "what to do when no known broker can be reached "
        "(KIP-899)", words=("rebootstrap", "none")),
    Key("metadata.cluster.check.enable", BOOL, True, "whether a broker is asked if it is the one that the metadata "
        "name; if not, the bootstrap servers are asked again (KIP-1242)"),
    Key("send.buffer.bytes", INT, -1, "SO_SNDBUF; -1 is the system's", -1, MAX_INT),
    Key("receive.buffer.bytes", INT, -1, "SO_RCVBUF; -1 is the system's", -1, MAX_INT),
)
