"""Checks whether a client's batch may be appended: by the topic's configuration, and by ``cy.batch.validate``.

Errors of the batch become Kafka's: a damaged one CORRUPT_MESSAGE, one that breaks a rule
INVALID_RECORD (with the records at fault, KIP-467) or INVALID_TIMESTAMP, an unknown codec
UNSUPPORTED_COMPRESSION_TYPE. Sizes are checked first, so that no batch is unpacked that could not be accepted anyway.
They are checked again if the topic's codec has changed them, because limits hold for stored batches.

A small batch may unpack to tens of megabytes, and packing takes longer still. So an append on the event loop raises
``TooHeavy`` for a batch that would block the loop. A thread then checks the batch (``Rules.checked``), and the
``CheckedBatch`` is appended instead of the client's bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from cy.batch import Batch, CorruptBatch, InvalidBatch, recompress, validate
from cy.batch.compression import Codec, CompressionError, OutputTooLarge, UnknownCodec, output_limit
from pybroker.config.log_config import MAX_LONG, LogConfig
from pybroker.log.files.storage import Bytes
from pyclient.protocol import errors

PRODUCER = "producer"
CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

UNPACKED_ON_LOOP: Final = 1 << 20
"""How many bytes a client's batch may have after unpacking on the loop: some milliseconds of work."""
PACKED_ON_LOOP: Final = 16 << 10
"""How many bytes a batch may have to be compressed again on the loop."""


class TooHeavy(Exception):
    """Raised if an append would block the event loop. Call ``rules.checked`` on a thread, and append its result."""

    def __init__(self, rules: Rules) -> None:
        super().__init__("a batch for a thread")
        self.rules = rules


class CheckedBatch(NamedTuple):
    """A client's batch that a thread has checked."""

    rules: Rules
    """The rules of the check. If other rules are in force by now, the batch has to be checked again."""
    received: Bytes
    header: Batch
    packed: Bytes
    """The received batch, in the topic's codec."""


Records = Bytes | CheckedBatch
"""One batch that is to be appended."""


class Rules:
    """The part of a topic's configuration that a produce needs. It is made once per configuration."""

    __slots__ = (
        "_after_ms",
        "_before_ms",
        "_codec",
        "_level",
        "_max_bytes",
        "_max_record",
        "_needs_key",
        "_segment_bytes",
        "_times",
    )

    def __init__(self, config: LogConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._max_record = config.max_decompressed_message_bytes
        self._segment_bytes = config.segment_bytes
        self._needs_key = config.is_compacted
        self._times = not config.uses_log_append_time
        self._before_ms = config.message_timestamp_before_max_ms
        self._after_ms = config.message_timestamp_after_max_ms
        self._codec = None if config.compression_type == PRODUCER else int(CODECS[config.compression_type])
        self._level = _level(config)

    def check(self, records: Bytes, now_ms: int, *, from_client: bool, on_loop: bool = False) -> Batch:
        """Returns the header of the one batch in ``records``.

        Raises errors.KafkaError of several kinds; with ``on_loop``, also TooHeavy.
        """
        self._check_size(len(records))
        max_output = UNPACKED_ON_LOOP if on_loop else None
        try:
            if self._times:
                batch = validate(
                    records,
                    require_key=self._needs_key,
                    min_timestamp=now_ms - self._before_ms,
                    max_timestamp=min(now_ms + self._after_ms, MAX_LONG),
                    allow_control=not from_client,
                    max_output=max_output,
                    max_record=self._max_record,
                )
            else:
                batch = validate(
                    records,
                    require_key=self._needs_key,
                    allow_control=not from_client,
                    max_output=max_output,
                    max_record=self._max_record,
                )
        except (ValueError, CompressionError) as error:
            if (
                max_output is not None
                and isinstance(error.__cause__, OutputTooLarge)
                and output_limit(len(records)) > max_output
            ):
                raise TooHeavy(self) from None
            raise kafka_error(error) from error
        if batch.base_offset and from_client:
            raise errors.InvalidRecord(f"the base offset of a batch from a client must be 0, not {batch.base_offset}")
        return batch

    def _check_size(self, length: int) -> None:
        if length > self._max_bytes:
            raise errors.MessageTooLarge(f"batch of {length} bytes, max.message.bytes is {self._max_bytes}")
        if length > self._segment_bytes:
            raise errors.RecordListTooLarge(f"batch of {length} bytes, segment.bytes is {self._segment_bytes}")

    def checked(self, records: Bytes, now_ms: int) -> CheckedBatch:
        """Checks and packs a client's batch, which may take long. Any thread may call it. Raises ``check``'s errors."""
        header = self.check(records, now_ms, from_client=True)
        return CheckedBatch(self, records, header, self.recompressed(records, header))

    def accept(self, batch: CheckedBatch, now_ms: int) -> tuple[Bytes, Batch, Bytes | None]:
        """Returns the received batch, its header, and the batch in the topic's codec.

        If other rules have checked the batch, it is checked again, and the last value is None: it is not packed yet.
        Raises the errors of ``check``.
        """
        if batch.rules is self:
            return batch.received, batch.header, batch.packed
        return batch.received, self.check(batch.received, now_ms, from_client=True, on_loop=True), None

    def repacked_on_loop(self, records: Bytes, batch: Batch) -> Bytes:
        """Does what ``recompressed`` does. Raises TooHeavy if that would block the event loop."""
        if self._codec is None or batch.codec == self._codec or batch.is_control:
            return records
        if len(records) > PACKED_ON_LOOP:
            raise TooHeavy(self)
        return self.recompressed(records, batch)

    def recompressed(self, records: Bytes, batch: Batch) -> Bytes:
        """Returns the batch in the topic's codec; the same object if the batch has that codec.

        Raises MessageTooLarge, RecordListTooLarge.
        """
        if self._codec is None or batch.codec == self._codec or batch.is_control:
            return records
        rewritten = recompress(records, self._codec, self._level)
        self._check_size(len(rewritten))
        return rewritten


@lru_cache(maxsize=1024)
def rules_for(config: LogConfig) -> Rules:
    """Returns the rules of a configuration; logs with equal ones share them."""
    return Rules(config)


def kafka_error(error: Exception) -> errors.KafkaError:
    """Returns the Kafka error for one of ``cy``'s."""
    if isinstance(error, UnknownCodec):
        return errors.UnsupportedCompressionType(str(error))
    if isinstance(error, InvalidBatch):
        if error.timestamp:
            return errors.InvalidTimestamp(str(error), record_errors=error.record_errors)
        return errors.InvalidRecord(str(error), record_errors=error.record_errors)
    if isinstance(error, CorruptBatch | CompressionError):
        return errors.CorruptMessage(str(error))
    raise error


def _level(config: LogConfig) -> int | None:
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return levels.get(config.compression_type)
