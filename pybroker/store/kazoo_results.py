"""Converts ZooKeeper's operations, results and errors between kazoo and the store's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import TransactionRequest
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL

from pybroker.store.interface import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAllowed,
    NotEmpty,
    Operation,
    OperationResult,
    SessionExpired,
    Set,
    Stat,
)

_ERRORS: Final[dict[type[Exception], type[CoordinationError]]] = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo_errors.SessionExpiredError: SessionExpired,
    kazoo_errors.ConnectionLoss: ConnectionLoss,
    kazoo_errors.ConnectionClosedError: ConnectionLoss,
    kazoo_errors.OperationTimeoutError: ConnectionLoss,
    kazoo_errors.SessionMovedError: ConnectionLoss,
}
_NOT_ALLOWED: Final[dict[type[Exception], str]] = {
    kazoo_errors.NoAuthError: "brokers with another certificate or login have made it (zookeeper.set.acl): use theirs "
    "as zookeeper.ssl.keystore.location or zookeeper.sasl.jaas.config",
    kazoo_errors.InvalidACLError: "ZooKeeper knows no certificate or login of this broker, which zookeeper.set.acl "
    "needs: it has to ask for one (ssl.clientAuth, authProvider.sasl)",
}
_NOT_AT_FAULT = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)


def outcome(result: Any) -> Any:
    """Returns the value or the exception of a kazoo result; ConnectionLoss if the session ended without an answer."""
    if not result.ready():
        return kazoo_errors.ConnectionLoss()
    return result.value if result.exception is None else result.exception


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ctime, stat.ephemeralOwner)


def found(result: Any, path: str) -> tuple[bytes, Stat] | None:
    """Returns the node's data and ``Stat``, None if there is no such node. Raises CoordinationError."""
    if isinstance(result, kazoo_errors.NoNodeError):
        return None
    if isinstance(result, Exception):
        raise translated(result, path)
    data, stat = result
    return data, _stat(stat)


def translated(error: Exception, path: str, index: int = 0) -> CoordinationError:
    """Translates an error of kazoo into one of the store's interface."""
    for theirs, ours in _ERRORS.items():
        if isinstance(error, theirs):
            return ours(path, index)
    for theirs, why in _NOT_ALLOWED.items():
        if isinstance(error, theirs):
            return NotAllowed(f"{path}: {why}", index)
    return CoordinationError(f"{path}: ZooKeeper: {type(error).__name__} {error}", index)


def add(transaction: TransactionRequest, operation: Operation, acl: list[ACL] | None = None) -> None:
    """Adds the operation to a ``multi``. ``acl`` is for created nodes; the default is the client's ACL."""
    if isinstance(operation, Create):
        kind = {"ephemeral": operation.ephemeral, "sequence": operation.sequence}
        transaction.create(operation.path, operation.data, acl, **kind)
    elif isinstance(operation, Set):
        transaction.set_data(operation.path, operation.data, operation.version)
    elif isinstance(operation, Delete):
        transaction.delete(operation.path, operation.version)
    else:
        transaction.check(operation.path, operation.version)


def size(operation: Operation) -> int:
    """Returns roughly how many bytes the operation takes in a request."""
    data = operation.data if isinstance(operation, (Create, Set)) else b""
    return len(operation.path) + len(data)


def results(operations: Sequence[Operation], results: list[Any]) -> list[OperationResult]:
    """Returns the results of a ``multi``; raises the error of the failed operation."""
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, _NOT_AT_FAULT):
            raise translated(result, operation.path, index)
    return [_result(operation, result) for operation, result in zip(operations, results, strict=True)]


def _result(operation: Operation, result: Any) -> OperationResult:
    if isinstance(operation, Create):
        return str(result)
    return _stat(result) if isinstance(operation, Set) else None
