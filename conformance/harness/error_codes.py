"""Kafka's error codes by name, as far as several parts of the suite go by them (the protocol's table of errors)."""

from __future__ import annotations

from typing import Final

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
INVALID_REQUIRED_ACKS: Final = 21
INCONSISTENT_GROUP_PROTOCOL: Final = 23
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
NOT_CONTROLLER: Final = 41
CONCURRENT_TRANSACTIONS: Final = 51
KAFKA_STORAGE_ERROR: Final = 56
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
MEMBER_ID_REQUIRED: Final = 79
INVALID_RECORD: Final = 87

COORDINATOR_NOT_READY: Final = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
"""Asked a moment later, the coordinator is there."""

TOPIC_NOT_READY: Final = (UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER)
"""Of a topic that has just been made: a moment later it is there, and has a leader."""

DISK_GONE: Final = (KAFKA_STORAGE_ERROR, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER)
"""A partition whose disk has failed says this, until another replica leads it."""
