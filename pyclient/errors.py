"""The errors of the SDK: Kafka's own (``pyclient.protocol.errors``) and those that arise in the client.

``error.retriable``: the same call may succeed later; the client has done so itself until its time
was over. ``error.fatal``: this client can do nothing more; close it. All can be pickled.
"""

from __future__ import annotations

from typing import Any, Self

from pyclient.protocol import errors as _kafka
from pyclient.protocol.errors import KafkaError, NetworkException, RequestTimedOut, by_code

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
        return type(self)(*self._reduced[:3], more)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._reduced


class ConnectionFailed(_AtHost, ClientError, ConnectionError):
    """No connection was made; ``phase`` is ``resolve``, ``connect`` or ``handshake``."""

    name = "CONNECTION_FAILED"
    retriable = True


class ConnectionLost(_AtHost, NetworkException, ConnectionError):
    """The connection ended before the response came; whether the request was served is unknown."""

    retriable = True


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
