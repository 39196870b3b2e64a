"""The errors of the consumer."""

from __future__ import annotations

from typing import Any, Final

from pyclient.errors import ClientError, KafkaError, by_code
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.protocol.errors import CorruptMessage, OffsetOutOfRange, UnknownServerError
from pyclient.topic_partition import TopicPartition

DAMAGED: Final = "; on the broker `pybroker log verify` shows the damage, and seek() skips it"


class IllegalState(ClientError, ValueError):
    """The consumer's state does not allow this call: a partition is not assigned, there is no group and so on."""

    name = "ILLEGAL_STATE"


class NoOffsetForPartition(ClientError):
    """Raised with auto.offset.reset=none for a partition without a position."""

    name = "NO_OFFSET_FOR_PARTITION"


class LogTruncation(OffsetOutOfRange):
    """Raised with auto.offset.reset=none if records already read have been removed from the log, and perhaps replaced
    (KIP-320). Each poll raises this until ``seek``. ``divergent`` is the first offset whose record may differ from the
    one that was read (None if unknown).
    """

    name = "LOG_TRUNCATION"

    def __init__(self, partition: TopicPartition, offset: int, divergent: OffsetAndMetadata | None) -> None:
        where = "at an unknown offset" if divergent is None else f"at offset {divergent.offset}"
        super().__init__(f"{partition}: the records read before offset {offset} diverge {where} from the leader's log")
        self.partition, self.offset, self.divergent = partition, offset, divergent

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.divergent)


class CommitFailed(ClientError):
    """The member is no longer in the group: other members have its partitions or will get them."""

    name = "COMMIT_FAILED"


class BatchTooLarge(ClientError):
    """A batch would be larger than max.decompressed.batch.bytes after decompression. The position stays before it:
    raise the limit, or seek past the batch. ``partition`` and ``offset`` tell where it is, ``limit`` is the limit in
    bytes.
    """

    name = "BATCH_TOO_LARGE"

    def __init__(self, partition: TopicPartition, offset: int, limit: int) -> None:
        super().__init__(
            f"{partition}, offset {offset}: the batch would be larger than max.decompressed.batch.bytes={limit}: "
            "raise the limit, or seek past the batch"
        )
        self.partition, self.offset, self.limit = partition, offset, limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.limit)


class CorruptRecords(ClientError):
    """A batch was fetched twice and is damaged, or this client cannot read it. The position stays before it: seek past
    it.
    """

    name = "CORRUPT_RECORDS"


class DeserializationError(ClientError, ValueError):
    """A deserializer failed. ``part`` is ``key`` or ``value``; ``topic``, ``partition`` and ``offset`` name the record,
    and the cause is the deserializer's error. ``record.key`` and ``record.value`` raise this. The position is after the
    record, so the next one can be read.
    """

    name = "DESERIALIZATION_ERROR"

    def __init__(self, part: str, topic: str, partition: int, offset: int, cause: Exception | str) -> None:
        why = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{topic}-{partition}, offset {offset}: the {part} could not be deserialized: {why}")
        self.part, self.topic, self.partition, self.offset = part, topic, partition, offset
        self._why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.part, self.topic, self.partition, self.offset, self._why)


def not_answered(partition: TopicPartition) -> UnknownServerError:
    """Returns the error for a partition that the request named and the broker's answer lacks: its state is unknown."""
    return UnknownServerError(f"{partition}: the broker's answer does not have it")


def error_of(code: int) -> KafkaError:
    """Returns the error for a code other than 0."""
    kind = by_code(code) or UnknownServerError
    return kind()


def error_at(partition: TopicPartition, offset: int | None, code: int) -> KafkaError:
    """Like ``error_of``, for a partition that cannot be read from ``offset`` on. Adds advice if the broker's disk is
    damaged.
    """
    error = error_of(code)
    advice = DAMAGED if isinstance(error, CorruptMessage) else ""
    return type(error)(f"{partition}, offset {offset}: {error}{advice}")
