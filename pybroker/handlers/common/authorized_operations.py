"""Bits of the operations that a client may do (KIP-430): bit n stands for ACL operation n.

Without an authorizer everything that fits the kind of resource is allowed.
"""

from __future__ import annotations

from typing import Final

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12

NOT_ASKED: Final = -(1 << 31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC: Final = _bits(
    READ, WRITE, CREATE, DESCRIBE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS
)
GROUP: Final = _bits(READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER: Final = _bits(
    CREATE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALTER, DESCRIBE
)
