"""Errors that arise in the producer."""

from __future__ import annotations

from pyclient.errors import ClientError


class TransactionError(ClientError):
    """Raised if the call is not valid in the current state of the transaction. The text names the state."""

    name = "TRANSACTION_ERROR"


class TransactionAborted(ClientError):
    """Raised if the record was not delivered, because its transaction was aborted."""

    name = "TRANSACTION_ABORTED"
    text = "The transaction was aborted before the record was sent."


class RecordTooLarge(ClientError, ValueError):
    """The record is larger than max.request.size or buffer.memory."""

    name = "RECORD_TOO_LARGE"


class SerializationError(ClientError, ValueError):
    """A serializer failed to convert a key or a value to bytes."""

    name = "SERIALIZATION_ERROR"
