"""The errors of the SDK: Kafka's own (``pyclient.protocol.errors``) and those that arise in the client.

If ``error.retriable``, the same call may succeed later; the client has retried it until its time limit. If
``error.fatal``, this client can do nothing more: close it. All errors can be pickled.

The sets at the end group errors by name (``error.name in STALE_METADATA``), where several parts of the client react
alike.
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
    """An error that the client raises itself; its ``code`` is -1."""

    name = "CLIENT_ERROR"
    text = "The client met an error."


class ConfigError(ClientError, ValueError):
    """A setting or argument is unknown or invalid; the text names it, and what is valid."""

    name = "CONFIG_ERROR"


class ClientClosed(ClientError):
    """The client was closed before or during the call."""

    name = "CLIENT_CLOSED"
    text = "The client is closed."
    fatal = True


class ClientForked(ClientError):
    """The client was made before a fork, so its thread and sockets belong to the parent process."""

    name = "CLIENT_FORKED"
    text = "This client was made before the fork: make one in the child."
    fatal = True


class BufferExhausted(ClientError):
    """``buffer.memory`` was full for ``max.block.ms``: the application sends faster than the brokers accept."""

    name = "BUFFER_EXHAUSTED"
    retriable = True


class WakeupError(ClientError):
    """Raised if ``wakeup()`` ended the wait."""

    name = "WAKEUP"
    text = "The wait was ended by wakeup()."


class UnsupportedByBroker(ClientError):
    """Raised if the broker does not support an API, or no version of it that can express the request."""

    name = "UNSUPPORTED_BY_BROKER"


class _AtHost:
    """An error at one server. ``host`` is ``name:port``, ``phase`` what the client was doing, ``cause`` the original
    error or None.
    """

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
        """Returns this error with ``more`` appended to the text."""
        host, phase, cause, own = self._reduced
        return type(self)(host, phase, cause, f"{own}{more}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._reduced


class ConnectionFailed(_AtHost, ClientError, ConnectionError):
    """The client could not connect.

    ``phase`` is ``resolve``, ``connect``, ``TLS handshake``, ``handshake``, ``SASL token`` or ``SASL authentication``.
    """

    name = "CONNECTION_FAILED"
    retriable = True

    @property
    def lasts(self) -> bool:
        """True if the next attempt will fail too. Then the client does not wait and retry, unless it can reach another
        server.
        """
        return self.phase == "resolve"


class TlsRefused(ConnectionFailed):
    """The client or the broker refused a certificate or a TLS setting. It stays so until one of them is changed."""

    @property
    def lasts(self) -> bool:
        """True: another attempt would fail in the same way."""
        return True


class SaslRefused(ConnectionFailed, SaslAuthenticationFailed):
    """Authentication failed: the broker, or the source of tokens, refused this client's credentials.

    It stays so until a setting or a user is changed. ``cause`` may be the broker's error: SaslAuthenticationFailed,
    UnsupportedSaslMechanism.
    """

    name = SaslAuthenticationFailed.name
    code = SaslAuthenticationFailed.code
    retriable = False
    fatal = False

    @property
    def lasts(self) -> bool:
        """True: another attempt would fail in the same way."""
        return True


class ConnectionLost(_AtHost, NetworkException, ConnectionError):
    """The connection ended before the response came. The broker may have executed the request."""

    retriable = True


STALE_METADATA: Final = frozenset(
    {
        *("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE"),
        *("NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR", "LISTENER_NOT_FOUND", "FENCED_LEADER_EPOCH"),
        *("PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE", "ELECTION_NOT_NEEDED"),
        *("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "UNKNOWN_LEADER_EPOCH"),
    }
)
"""After these errors the client fetches metadata again. They are ``InvalidMetadataException`` and its subclasses in
Kafka 4.3's Java client, and UNKNOWN_LEADER_EPOCH, as in Java's ``OffsetFetcherUtils``.
"""

STALE_ROUTE: Final = STALE_METADATA | {"NOT_CONTROLLER", "CONNECTION_FAILED", "REQUEST_TIMED_OUT"}
"""After these errors the client fetches metadata again, and then sends the request to the broker that it names. They
include the errors of a broker that is no longer the controller, or that could not be reached. Java's ``NetworkClient``
does so when a connection ends.
"""

STALE_POSITION: Final = STALE_ROUTE | {"OFFSET_NOT_AVAILABLE"}
"""After these errors the consumer fetches metadata and tries the fetch again (Java's ``FetchCollector``)."""

SESSION_LOST: Final = frozenset(
    {"FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"}
)
"""After these errors the next fetch begins a new session (KIP-227, KIP-516)."""

COORDINATOR_MOVED: Final = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"})
"""After these errors the client looks for the coordinator again. A coordinator that still loads
(COORDINATOR_LOAD_IN_PROGRESS) is the right one. The client only asks it again later, as Java's ``TransactionManager``
and ``ConsumerCoordinator`` do.
"""

COORDINATOR_LOST: Final = COORDINATOR_MOVED | {"CONNECTION_FAILED", "NETWORK_EXCEPTION"}
"""The errors of ``COORDINATOR_MOVED``, and those of a broker that could not be reached."""

CONTROLLER_LOST: Final = frozenset({"NOT_CONTROLLER", "CONNECTION_FAILED", "NETWORK_EXCEPTION"})
"""The controller may not have received the request, so the client looks for the controller again."""

NOT_MEMBER: Final = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH"})
"""The group has evicted this member, which joins again. Members of the classic protocol get ILLEGAL_GENERATION, those
of the consumer protocol (KIP-848) FENCED_MEMBER_EPOCH.
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
"""Errors of checks that a broker makes before it appends a batch. After any other error the batch may be in a log. For
example, a leader also answers NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION and KAFKA_STORAGE_ERROR while a batch
waits for its followers (``DelayedProduce``).
"""

OUT_OF_SEQUENCE: Final = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"})
"""The sequence of the batch does not follow the producer's last batch in the log."""

TOO_LARGE: Final = frozenset({"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""The batch is split and sent again."""

FATAL_TO_PRODUCER: Final = frozenset(
    {"PRODUCER_FENCED", "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
)
"""After these errors a transactional producer can do nothing more. INVALID_PRODUCER_EPOCH is not among them: from a
partition's leader it means that the transaction must be aborted (KIP-588).
"""

DENIED: Final = frozenset(
    {
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"),
        *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED",),
    }
)
"""The client lacks a right. The call fails at once. A consumer continues when the right is granted."""

FATAL_TO_TRANSACTIONS: Final = FATAL_TO_PRODUCER | {
    *("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TRANSACTION_TIMEOUT"),
}
"""The errors of ``FATAL_TO_PRODUCER``, and those of the transaction coordinator that end all transactions of the
producer.
"""


def _describe(cause: BaseException | str | None) -> str:
    """Returns the text of the cause, or its class if it has no text."""
    if cause is None or isinstance(cause, str):
        return cause or ""
    return str(cause) or type(cause).__name__


def of_code(code: int, message: str | None = None) -> KafkaError | None:
    """Returns the exception of an error code in a response, None for 0."""
    error = by_code(code)
    return None if error is None else error(message)


def check(code: int, message: str | None = None) -> None:
    """Raises the exception of an error code; does nothing for 0."""
    error = of_code(code, message)
    if error is not None:
        raise error


def __getattr__(name: str) -> Any:
    """Makes Kafka's errors attributes of this module: ``pyclient.errors.OffsetOutOfRange``."""
    try:
        return getattr(_kafka, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
