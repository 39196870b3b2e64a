"""The errors of the SDK: Kafka's own (``pyclient.protocol.errors``) and those that arise in the client.

``error.retriable``: the same call may succeed later; the client has done so itself until its time
was over. ``error.fatal``: this client can do nothing more; close it. All can be pickled.

The sets at the end say by names (``error.name in STALE_METADATA``) what several parts of the client do about an error.
"""

from __future__ import annotations

from typing import Any, Final, Self

from pyclient.protocol import errors as _kafka
from pyclient.protocol.errors import (
    KafkaError,
    NetworkException,
    RequestTimedOut,
    SaslAuthenticationFailed,
    by_code,
)

__all__ = [
    "BufferExhausted",
    "ClientClosed",
    "ClientError",
    "ClientForked",
    "ConfigError",
    "ConnectionFailed",
    "ConnectionLost",
    "KafkaError",
    "RequestTimedOut",
    "SaslRefused",
    "TlsRefused",
    "UnsupportedByBroker",
    "WakeupError",
    "by_code",
]


class ClientError(KafkaError):
    """An error that no broker sent: ``code`` is -1."""

    name = "CLIENT_ERROR"
    text = "The client met an error."


class ConfigError(ClientError, ValueError):
    """An unknown key or a bad value; the text says which, and what would be right."""

    name = "CONFIG_ERROR"


class ClientClosed(ClientError):
    """The client was closed before, or while, this was done."""

    name = "CLIENT_CLOSED"
    text = "The client is closed."
    fatal = True


class ClientForked(ClientError):
    """The client was made before a fork, its thread and sockets stayed with the parent."""

    name = "CLIENT_FORKED"
    text = "This client was made before the fork: make one in the child."
    fatal = True


class BufferExhausted(ClientError):
    """``buffer.memory`` was full for ``max.block.ms``: records come faster than the brokers take them."""

    name = "BUFFER_EXHAUSTED"
    retriable = True


class WakeupError(ClientError):
    """``wakeup()`` ended the wait."""

    name = "WAKEUP"
    text = "The wait was ended by wakeup()."


class UnsupportedByBroker(ClientError):
    """The broker serves no version of an API, or no version that can say what was asked."""

    name = "UNSUPPORTED_BY_BROKER"


class _AtHost:
    """host: ``name:port``. phase: what was being done. cause: the error beneath, or None."""

    host: str
    phase: str
    cause: BaseException | None

    def __init__(
        self, host: str, phase: str, cause: BaseException | str | None = None, more: str = ""
    ) -> None:
        why = _describe(cause)
        super().__init__(f"{host}: {phase} failed{': ' + why if why else ''}{more}")  # type: ignore[call-arg]
        self.host = host
        self.phase = phase
        self.cause = cause if isinstance(cause, BaseException) else None
        self._reduced = (host, phase, cause, more)

    def saying(self, more: str) -> Self:
        """The same with more text behind its own."""
        host, phase, cause, own = self._reduced
        return type(self)(host, phase, cause, f"{own}{more}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._reduced


class ConnectionFailed(_AtHost, ClientError, ConnectionError):
    """No connection was made; ``phase`` is ``resolve``, ``connect``, ``TLS handshake``, ``handshake``, ``SASL token``
    or ``SASL authentication``.
    """

    name = "CONNECTION_FAILED"
    retriable = True

    @property
    def lasts(self) -> bool:
        """Whether the next attempt will fail too: a client that reaches no other server does not wait for it."""
        return self.phase == "resolve"


class TlsRefused(ConnectionFailed):
    """A certificate or a setting of TLS was refused, here or by the broker. It will be until one is changed."""

    @property
    def lasts(self) -> bool:
        """True."""
        return True


class SaslRefused(ConnectionFailed, SaslAuthenticationFailed):
    """The broker, or the source of tokens, does not accept who this client says it is. It will not until a setting or
    a user is changed. ``cause`` may be the broker's error: SaslAuthenticationFailed, UnsupportedSaslMechanism.
    """

    name = SaslAuthenticationFailed.name
    code = SaslAuthenticationFailed.code
    retriable = False
    fatal = False

    @property
    def lasts(self) -> bool:
        """True."""
        return True


class ConnectionLost(_AtHost, NetworkException, ConnectionError):
    """The connection ended before the response came; whether the request was served is unknown."""

    retriable = True


STALE_METADATA: Final = frozenset(
    {
        *("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE"),
        *("NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR", "LISTENER_NOT_FOUND", "FENCED_LEADER_EPOCH"),
        *("PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE", "ELECTION_NOT_NEEDED"),
        *("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "UNKNOWN_LEADER_EPOCH"),
    }
)
"""The metadata is asked for again: ``InvalidMetadataException`` and what extends it in Kafka 4.3's Java client, and
UNKNOWN_LEADER_EPOCH, after which its consumer asks for it too (``OffsetFetcherUtils``).
"""

STALE_ROUTE: Final = STALE_METADATA | {"NOT_CONTROLLER", "CONNECTION_FAILED", "REQUEST_TIMED_OUT"}
"""The client fetches the metadata again, and then sends the request to the broker that it names. It also does so where
a broker is no longer the controller, or could not be reached. Java's ``NetworkClient`` does so when a connection ends.
"""

STALE_POSITION: Final = STALE_ROUTE | {"OFFSET_NOT_AVAILABLE"}
"""A fetch is tried again with newer metadata (Java's ``FetchCollector``)."""

SESSION_LOST: Final = frozenset(
    {"FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"}
)
"""The next fetch begins a session (KIP-227, KIP-516)."""

COORDINATOR_MOVED: Final = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"})
"""The coordinator is looked for again. One that still loads (COORDINATOR_LOAD_IN_PROGRESS) is the right one: it is only
asked again later, as Java's ``TransactionManager`` and ``ConsumerCoordinator`` do.
"""

COORDINATOR_LOST: Final = COORDINATOR_MOVED | {"CONNECTION_FAILED", "NETWORK_EXCEPTION"}
"""The same, or the broker could not be reached."""

CONTROLLER_LOST: Final = frozenset({"NOT_CONTROLLER", "CONNECTION_FAILED", "NETWORK_EXCEPTION"})
"""The request may not have come to the controller: it is looked for again."""

NOT_MEMBER: Final = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH"})
"""The group has put this member out: it joins again. ILLEGAL_GENERATION is said to members of the classic protocol,
FENCED_MEMBER_EPOCH to those of the consumer protocol (KIP-848).
"""

NOT_APPENDED: Final = frozenset(
    {
        *("CORRUPT_MESSAGE", "LEADER_NOT_AVAILABLE", "MESSAGE_TOO_LARGE", "COORDINATOR_LOAD_IN_PROGRESS"),
        *("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "INVALID_TOPIC_EXCEPTION", "RECORD_LIST_TOO_LARGE"),
        *("NOT_ENOUGH_REPLICAS", "INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED"),
        *("CLUSTER_AUTHORIZATION_FAILED", "INVALID_TIMESTAMP", "UNSUPPORTED_VERSION", "INVALID_REQUEST"),
        *("UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        *("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "CONCURRENT_TRANSACTIONS"),
        *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNKNOWN_PRODUCER_ID", "FENCED_LEADER_EPOCH"),
        *("UNKNOWN_LEADER_EPOCH", "UNSUPPORTED_COMPRESSION_TYPE", "INVALID_RECORD", "THROTTLING_QUOTA_EXCEEDED"),
        *("PRODUCER_FENCED", "TRANSACTION_ABORTABLE"),
    }
)
"""What a broker looks at before it appends a batch. After all others the batch may be in a log: a leader answers
NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION and KAFKA_STORAGE_ERROR also to what waits for its followers
(``DelayedProduce``).
"""

OUT_OF_SEQUENCE: Final = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"})
"""The log holds other batches of the producer than the sequence of this one tells."""

TOO_LARGE: Final = frozenset({"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""A batch that goes again in parts."""

FATAL_TO_PRODUCER: Final = frozenset(
    {"PRODUCER_FENCED", "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
)
"""A refused batch after which a transactional producer can do nothing more. INVALID_PRODUCER_EPOCH is not among them:
of a partition's leader it means that the transaction has to be aborted (KIP-588).
"""

DENIED: Final = frozenset(
    {
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"),
        *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED",),
    }
)
"""A right is missing. The application hears of it at once. A consumer goes on when the right is granted."""

FATAL_TO_TRANSACTIONS: Final = FATAL_TO_PRODUCER | {
    *("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TRANSACTION_TIMEOUT"),
}
"""The same, of what the transaction coordinator says."""


def _describe(cause: BaseException | str | None) -> str:
    """The cause in words; an exception without a text by its class."""
    if cause is None or isinstance(cause, str):
        return cause or ""
    return str(cause) or type(cause).__name__


def of_code(code: int, message: str | None = None) -> KafkaError | None:
    """The exception of an error code in a response, None of 0."""
    error = by_code(code)
    return None if error is None else error(message)


def check(code: int, message: str | None = None) -> None:
    """Raises the exception of an error code; does nothing for 0."""
    error = of_code(code, message)
    if error is not None:
        raise error


def __getattr__(name: str) -> Any:
    """Kafka's errors are names of this module too: ``pyclient.errors.OffsetOutOfRange``."""
    try:
        return getattr(_kafka, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
