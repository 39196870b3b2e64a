"""Numbers of the protocol other than error codes."""

from __future__ import annotations

from enum import IntEnum


class Resource(IntEnum):
    """``resource_type`` of the APIs of settings."""

    TOPIC = 2
    BROKER = 4


class Coordinator(IntEnum):
    """Kinds of coordinators: ``key_type`` of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Operation(IntEnum):
    """Kinds of changes: ``config_operation`` of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


GROUP, TRANSACTION = Coordinator.GROUP, Coordinator.TRANSACTION


class AclResource(IntEnum):
    """Types of resources: ``resource_type`` of an ACL."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class AclOperation(IntEnum):
    """Operations that an ACL allows or denies: its ``operation``."""

    ANY = 1
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


class AclPermission(IntEnum):
    """Whether an ACL allows or denies: its ``permission_type``."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class AclPattern(IntEnum):
    """``pattern_type`` of an ACL. A filter by MATCH finds all that concern a name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


LITERAL = AclPattern.LITERAL
