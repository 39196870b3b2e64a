"""Bits of the operations that a client may do (KIP-430): bit n stands for ACL operation n.

Without an authorizer everything that fits the kind of resource is allowed.
"""

from __future__ import annotations

from typing import Final

from pyclient.protocol.acls import AclOperation

NOT_ASKED: Final = -(1 << 31)


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_Op = AclOperation

TOPIC: Final = _bits(
    _Op.READ, _Op.WRITE, _Op.CREATE, _Op.DESCRIBE, _Op.DELETE, _Op.ALTER, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS
)
GROUP: Final = _bits(_Op.READ, _Op.DESCRIBE, _Op.DELETE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS)
CLUSTER: Final = _bits(
    _Op.CREATE, _Op.CLUSTER_ACTION, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS,
    _Op.IDEMPOTENT_WRITE, _Op.ALTER, _Op.DESCRIBE,
)
