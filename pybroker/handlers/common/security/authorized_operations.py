"""The operations that a client may do, as a bit field (KIP-430): bit n stands for ACL operation n.

Without an authorizer, all operations that the kind of resource knows are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import DESCRIBE_CLUSTER, Right, may
from pyclient.protocol.acls import AclOperation, AclResourceType

NONE: Final = 0

_Op = AclOperation

_TOPIC: Final = (
    *(_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DESCRIBE, _Op.DELETE, _Op.ALTER, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS),
)
_GROUP: Final = (_Op.READ, _Op.DESCRIBE, _Op.DELETE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS)
_CLUSTER: Final = (
    *(_Op.CREATE, _Op.CLUSTER_ACTION, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS),
    *(_Op.IDEMPOTENT_WRITE, _Op.ALTER, _Op.DESCRIBE),
)


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


TOPIC: Final = _bits(_TOPIC)
GROUP: Final = _bits(_GROUP)
CLUSTER: Final = _bits(_CLUSTER)


def of_topic(call: Call, name: str) -> int:
    """Returns the client's authorized operations on the topic."""
    if call.broker.authorizer is None:
        return TOPIC
    return _bits(each for each in _TOPIC if may(call, Right(each, AclResourceType.TOPIC), name, is_told=False))


def of_group(call: Call, group_id: str) -> int:
    """Returns the client's authorized operations on the group."""
    if call.broker.authorizer is None:
        return GROUP
    return _bits(each for each in _GROUP if may(call, Right(each, AclResourceType.GROUP), group_id, is_told=False))


def of_cluster(call: Call) -> int:
    """Returns the client's authorized operations on the cluster: none if it may not describe it."""
    if call.broker.authorizer is None:
        return CLUSTER
    if not may(call, DESCRIBE_CLUSTER):
        return NONE
    return _bits(each for each in _CLUSTER if may(call, Right(each, AclResourceType.CLUSTER), is_told=False))
