"""Errors that only a consumer meets."""

from __future__ import annotations

from typing import Any, Final

from pyclient.errors import ClientError, KafkaError, by_code
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.protocol.errors import CorruptMessage, OffsetOutOfRange, UnknownServerError
from pyclient.topic_partition import TopicPartition

DAMAGED: Final = "; on the broker `pybroker log verify` finds what is damaged, and seek() goes past it"


class IllegalState(ClientError, ValueError):
    """The consumer cannot do this as it is: the partition is not assigned, there is no group …"""

    name = "ILLEGAL_STATE"


class NoOffsetForPartition(ClientError):
    """No position, and auto.offset.reset=none."""

    name = "NO_OFFSET_FOR_PARTITION"


class LogTruncation(OffsetOutOfRange):
    """Records that were read are gone from the log, others may stand at their offsets (KIP-320), and
    auto.offset.reset=none. Each poll raises it until ``seek``: to ``divergent``, the first offset whose
    record may be another than was read (None: not known), or elsewhere.
    """

    name = "LOG_TRUNCATION"

    def __init__(self, partition: TopicPartition, offset: int, divergent: OffsetAndMetadata | None) -> None:
        where = "at an unknown offset" if divergent is None else f"at offset {divergent.offset}"
        super().__init__(f"{partition}: what was read before offset {offset} parts {where} from the leader's log")
        self.partition, self.offset, self.divergent = partition, offset, divergent

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.divergent)


class CommitFailed(ClientError):
    """The member is no longer in the group: its partitions are others' now, or will be."""

    name = "COMMIT_FAILED"


class BatchTooLarge(ClientError):
    """A batch is whole, but becomes more than max.decompressed.batch.bytes when it is decompressed. The position stays
    before it: allow more, or seek past. ``partition``, ``offset``: where it lies; ``limit``: what was allowed, in
    bytes.
    """

    name = "BATCH_TOO_LARGE"

    def __init__(self, partition: TopicPartition, offset: int, limit: int) -> None:
        super().__init__(
            f"{partition}, offset {offset}: the batch becomes more than max.decompressed.batch.bytes={limit}: "
            "allow more, or seek past it"
        )
        self.partition, self.offset, self.limit = partition, offset, limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.limit)


class CorruptRecords(ClientError):
    """A batch was fetched twice and is damaged, or the SDK cannot read it. The position stays before it; seek past it.
    """

    name = "CORRUPT_RECORDS"


class DeserializationError(ClientError, ValueError):
    """A deserializer could not make a key or a value (``part``) of the bytes of the record at ``topic``,
    ``partition``, ``offset``; the cause is what it has raised. It comes out of ``record.key``, ``record.value``: the
    position is behind the record, so that the next one can be read.
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
    """What to raise where a broker's answer lacks a partition that was asked for: nothing is known of it, not even
    that there is nothing.
    """
    return UnknownServerError(f"{partition}: the broker's answer does not have it")


def error_of(code: int) -> KafkaError:
    """The error of a code that is not 0."""
    kind = by_code(code) or UnknownServerError
    return kind()


def error_at(partition: TopicPartition, offset: int | None, code: int) -> KafkaError:
    """The same of a partition that cannot be read from ``offset`` on; what to do where the broker's disk has damage."""
    error = error_of(code)
    advice = DAMAGED if isinstance(error, CorruptMessage) else ""
    return type(error)(f"{partition}, offset {offset}: {error}{advice}")
