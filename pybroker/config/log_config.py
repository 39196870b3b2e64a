"""The part of a topic's configuration that a log needs.

It has one field per topic key of Kafka, with ``_`` for ``.``; units are those of the key. ``topic_config`` builds it
from the table of keys. Equal configurations should be one object, so that 10,000 partitions share it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_LONG = (1 << 63) - 1

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

COMPACT = "compact"
DELETE = "delete"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LogConfig:
    """The topic configuration of one log; the defaults are Kafka's.

    Two keys are accepted without effect, because POSIX makes them pointless: ``preallocate`` (files grow by appending)
    and ``file_delete_delay_ms`` (a reader of a deleted file keeps it open).
    """

    cleanup_policy: frozenset[str] = frozenset({DELETE})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    flush_acks: bool = False
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_LONG
    max_decompressed_message_bytes: int = 2_147_483_639
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    def asking_all_replicas(self) -> LogConfig:
        """Returns this configuration with the largest min.insync.replicas, so that no write is acknowledged with fewer
        replicas than guaranteed.
        """
        return replace(self, min_insync_replicas=MAX_LONG)

    def keeping_everything(self) -> LogConfig:
        """Returns this configuration without retention and compaction, for a log whose topic's configuration is
        unknown.
        """
        return replace(self, cleanup_policy=frozenset())

    @property
    def is_compacted(self) -> bool:
        """True if the latest value of each key is kept, so that every record needs a key."""
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        """True if retention.ms and retention.bytes apply."""
        return DELETE in self.cleanup_policy

    @property
    def uses_log_append_time(self) -> bool:
        """True if the broker's clock sets the records' timestamps, not the producer's."""
        return self.message_timestamp_type == LOG_APPEND_TIME
