"""The numbers for ACLs in requests (KIP-11, KIP-290): resource types, patterns, operations and permissions."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type ``CLUSTER``."""
WILDCARD: Final = "*"
"""In a literal pattern: every resource. As a host: every host."""


class AclResourceType(IntEnum):
    """The types of resources that have ACLs."""

    UNKNOWN = 0
    ANY = 1
    """In filters: all types."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL's name is compared with a resource's."""

    UNKNOWN = 0
    ANY = 1
    """In filters: exactly this name, with any pattern type."""
    MATCH = 2
    """In filters: every pattern that the name matches."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    """In filters: all operations."""
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    """Matches both DENY and ALLOW, in filters only."""
    DENY = 2
    ALLOW = 3
