"""Errors that arise in the producer."""

from __future__ import annotations

from pyclient.errors import ClientError


class TransactionError(ClientError):
    """The call does not fit the state of the transaction, which the text names."""

    name = "TRANSACTION_ERROR"


class TransactionAborted(ClientError):
    """The record was not delivered, as its transaction was aborted."""

    name = "TRANSACTION_ABORTED"
    text = "The transaction was aborted before the record was sent."


class RecordTooLarge(ClientError, ValueError):
    """The record alone is larger than max.request.size or buffer.memory."""

    name = "RECORD_TOO_LARGE"


class SerializationError(ClientError, ValueError):
    """A serializer could not make bytes of a key or a value."""

    name = "SERIALIZATION_ERROR"
