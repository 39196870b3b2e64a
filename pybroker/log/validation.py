"""May this batch of a client be appended? The rules of the topic's configuration, around those of
``cy.batch.validate``.

Errors of the batch become Kafka's: a damaged one CORRUPT_MESSAGE, one that breaks a rule
INVALID_RECORD (with the records at fault, KIP-467) or INVALID_TIMESTAMP, an unknown codec
UNSUPPORTED_COMPRESSION_TYPE. Sizes are looked at first: nothing is unpacked that could not be
accepted anyway.
"""

from __future__ import annotations

from functools import lru_cache

from cy.batch import Batch, CorruptBatch, InvalidBatch, recompress, validate
from cy.compression import Codec, CompressionError, UnknownCodec
from pybroker.log.config import MAX_LONG, LogConfig
from pybroker.log.storage import Bytes
from pyclient.protocol import errors

PRODUCER = "producer"
CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Rules:
    """A topic's configuration as a produce needs it; made once per configuration."""

    __slots__ = (
        "_after_ms",
        "_before_ms",
        "_codec",
        "_level",
        "_max_bytes",
        "_needs_key",
        "_segment_bytes",
        "_times",
    )

    def __init__(self, config: LogConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._needs_key = config.is_compacted
        self._times = not config.uses_log_append_time
        self._before_ms = config.message_timestamp_before_max_ms
        self._after_ms = config.message_timestamp_after_max_ms
        self._codec = None if config.compression_type == PRODUCER else int(CODECS[config.compression_type])
        self._level = _level(config)

    def check(self, records: Bytes, now_ms: int, *, from_client: bool) -> Batch:
        """The header of the one batch in ``records``.

        Raises errors.KafkaError of several kinds.
        """
        length = len(records)
        if length > self._max_bytes:
            raise errors.MessageTooLarge(f"batch of {length} bytes, max.message.bytes is {self._max_bytes}")
        if length > self._segment_bytes:
            raise errors.RecordListTooLarge(f"batch of {length} bytes, segment.bytes is {self._segment_bytes}")
        try:
            if self._times:
                batch = validate(
                    records,
                    require_key=self._needs_key,
                    min_timestamp=now_ms - self._before_ms,
                    max_timestamp=min(now_ms + self._after_ms, MAX_LONG),
                    allow_control=not from_client,
                )
            else:
                batch = validate(records, require_key=self._needs_key, allow_control=not from_client)
        except (ValueError, CompressionError) as error:
            raise kafka_error(error) from error
        if batch.base_offset and from_client:
            raise errors.InvalidRecord(f"the base offset of a batch from a client is 0, not {batch.base_offset}")
        return batch

    def recompressed(self, records: Bytes, batch: Batch) -> Bytes:
        """The batch in the topic's codec; the same object where it is so already."""
        if self._codec is None or batch.codec == self._codec or batch.is_control:
            return records
        return recompress(records, self._codec, self._level)


@lru_cache(maxsize=1024)
def rules_for(config: LogConfig) -> Rules:
    """The rules of a configuration; logs with equal ones share them."""
    return Rules(config)


def kafka_error(error: Exception) -> errors.KafkaError:
    """The Kafka error for one of ``cy``'s."""
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
