"""Checks what a client may do (KIP-11). Each API's row names the rights that it needs; the authorizer decides.

Without an authorizer, every client may do everything. So may a broker of this cluster that has proved itself, since it
has all the records anyway; but a request that it forwards has its client's rights (``forwarding``).

Rights to the cluster that concern a whole request are checked before its handler runs (``guarded``). The handler checks
rights to topics, groups and transactional ids, before it reveals whether they exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any, Final, NamedTuple, TypeVar

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, settled, walk
from pyclient.protocol import errors
from pyclient.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType

MOST_KEPT: Final = 10_000
"""How many allowed topics a connection caches. Names without a topic are not cached."""

T = TypeVar("T")
Handle = Callable[[Any, Call], Any]
Refuse = Callable[[Any, Call, errors.KafkaError], Any]


class Right(NamedTuple):
    """One operation on one type of resource."""

    operation: AclOperation
    kind: AclResourceType


_Op, _Kind = AclOperation, AclResourceType

READ_TOPIC: Final = Right(_Op.READ, _Kind.TOPIC)
WRITE_TOPIC: Final = Right(_Op.WRITE, _Kind.TOPIC)
CREATE_TOPIC: Final = Right(_Op.CREATE, _Kind.TOPIC)
DELETE_TOPIC: Final = Right(_Op.DELETE, _Kind.TOPIC)
ALTER_TOPIC: Final = Right(_Op.ALTER, _Kind.TOPIC)
DESCRIBE_TOPIC: Final = Right(_Op.DESCRIBE, _Kind.TOPIC)
DESCRIBE_CONFIGS_TOPIC: Final = Right(_Op.DESCRIBE_CONFIGS, _Kind.TOPIC)
ALTER_CONFIGS_TOPIC: Final = Right(_Op.ALTER_CONFIGS, _Kind.TOPIC)
READ_GROUP: Final = Right(_Op.READ, _Kind.GROUP)
DELETE_GROUP: Final = Right(_Op.DELETE, _Kind.GROUP)
DESCRIBE_GROUP: Final = Right(_Op.DESCRIBE, _Kind.GROUP)
DESCRIBE_CONFIGS_GROUP: Final = Right(_Op.DESCRIBE_CONFIGS, _Kind.GROUP)
ALTER_CONFIGS_GROUP: Final = Right(_Op.ALTER_CONFIGS, _Kind.GROUP)
WRITE_TRANSACTIONAL_ID: Final = Right(_Op.WRITE, _Kind.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Right(_Op.DESCRIBE, _Kind.TRANSACTIONAL_ID)
CREATE_CLUSTER: Final = Right(_Op.CREATE, _Kind.CLUSTER)
DELETE_CLUSTER: Final = Right(_Op.DELETE, _Kind.CLUSTER)
ALTER_CLUSTER: Final = Right(_Op.ALTER, _Kind.CLUSTER)
DESCRIBE_CLUSTER: Final = Right(_Op.DESCRIBE, _Kind.CLUSTER)
CLUSTER_ACTION: Final = Right(_Op.CLUSTER_ACTION, _Kind.CLUSTER)
DESCRIBE_CONFIGS_CLUSTER: Final = Right(_Op.DESCRIBE_CONFIGS, _Kind.CLUSTER)
ALTER_CONFIGS_CLUSTER: Final = Right(_Op.ALTER_CONFIGS, _Kind.CLUSTER)
IDEMPOTENT_WRITE: Final = Right(_Op.IDEMPOTENT_WRITE, _Kind.CLUSTER)
DESCRIBE_TOKEN: Final = Right(_Op.DESCRIBE, _Kind.DELEGATION_TOKEN)
CREATE_TOKENS_USER: Final = Right(_Op.CREATE_TOKENS, _Kind.USER)
DESCRIBE_TOKENS_USER: Final = Right(_Op.DESCRIBE_TOKENS, _Kind.USER)

DENIED: Final[dict[AclResourceType, type[errors.KafkaError]]] = {
    _Kind.TOPIC: errors.TopicAuthorizationFailed,
    _Kind.GROUP: errors.GroupAuthorizationFailed,
    _Kind.CLUSTER: errors.ClusterAuthorizationFailed,
    _Kind.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailed,
}
"""The error of a client that lacks a right to that type of resource."""


class Needs(NamedTuple):
    """Which rights an API needs, and where they are checked.

    If ``refuse`` is given, ``rights`` are checked before the handler runs, and ``refuse`` makes the response to a
    client that has none of them. If it is None, the handler checks the rights item by item.
    """

    rights: tuple[Right, ...]
    refuse: Refuse | None = None


NOTHING: Final = Needs(())
"""Every client may use the API."""


def each(*rights: Right) -> Needs:
    """Returns needs that the handler checks for each resource that the request names."""
    return Needs(rights)


def whole(refuse: Refuse, *rights: Right) -> Needs:
    """Returns needs that are checked before the handler: the client must have one of these rights to the cluster."""
    return Needs(rights, refuse)


def at_top(api: Any) -> Refuse:
    """Returns a ``Refuse`` for an API whose response has one error for the whole request."""

    def refuse(request: Any, call: Call, error: errors.KafkaError) -> Any:
        response = api.Response(error_code=error.code)
        if hasattr(response, "error_message"):
            response.error_message = str(error)
        return response

    return refuse


def guarded(handle: Handle, needs: Needs) -> Handle:
    """Wraps a handler with the check of rights to the cluster, if ``needs`` has one."""
    rights, refuse = needs
    if refuse is None:
        return handle

    @wraps(handle)
    def route(request: Any, call: Call) -> Any:
        if call.broker.authorizer is None or any(may(call, each, is_told=each is rights[-1]) for each in rights):
            return handle(request, call)
        return refuse(request, call, errors.ClusterAuthorizationFailed())

    return route


def may(call: Call, right: Right, name: str = CLUSTER_NAME, *, is_told: bool = True) -> bool:
    """Returns True if the client has the right to the named resource. With ``is_told``, a denial is audited."""
    authorizer = call.broker.authorizer
    if authorizer is None or call.is_of_broker:
        return True
    operation, kind = right
    return authorizer.authorize(call.principal, call.host, operation, kind, name, request=call.api, is_told=is_told)


def may_any(call: Call, right: Right) -> bool:
    """Returns True if the client has the right to at least one resource of its type."""
    authorizer = call.broker.authorizer
    if authorizer is None or call.is_of_broker:
        return True
    return authorizer.authorize_any(call.principal, call.host, right.operation, right.kind)


def check(call: Call, right: Right, name: str = CLUSTER_NAME) -> None:
    """Raises the authorization error of the resource's type if the client lacks the right."""
    if call.broker.authorizer is not None and not may(call, right, name):
        raise DENIED[right.kind]


def seeing(call: Call) -> Callable[[str], bool] | None:
    """Returns a function that tells which topics the client may see, by name; None if it may see all."""
    return None if call.broker.authorizer is None else partial(may, call, DESCRIBE_TOPIC, is_told=False)


async def permitted(call: Call, right: Right, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Returns the items whose names the client has the right to; checks many of them in turns."""
    if call.broker.authorizer is None:
        return list(items)

    def asked() -> Paced[list[T]]:
        found = []
        for item in items:
            yield
            if may(call, right, name(item), is_told=False):
                found.append(item)
        return found

    return await settled(walk(asked(), call))  # type: ignore[no-any-return]


async def check_all(call: Call, right: Right, names: Iterable[str]) -> None:
    """Checks many names as ``check`` does, in turns."""

    def asked() -> Paced[None]:
        for name in names:
            yield
            check(call, right, name)

    await settled(walk(asked(), call))


class Decisions(set[str]):
    """Names to which the authorizer has granted one right, valid while its ACLs and the principal stay the same.

    Denials are not cached, because the audit log repeats them from time to time.
    """

    __slots__ = ("principal", "right", "version")

    def __init__(self, right: Right, version: int, principal: str) -> None:
        super().__init__()
        self.right = right
        self.version = version
        self.principal = principal


def check_topic(call: Call, right: Right, name: str | None, topic_id: bytes) -> None:
    """Checks as ``check`` does, with a cache, for requests that name the same topics again and again.

    The topic is given by name, or by id if the name is None. There must be an authorizer. Raises
    TopicAuthorizationFailed, UnknownTopicId.
    """
    image: MetadataImage = call.broker.replicas.partitions.image
    if name is None:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            raise errors.UnknownTopicId(f"there is no topic with the id {topic_id.hex()}")
        name = topic.name
    version = call.broker.authorizer.version  # type: ignore[union-attr]
    kept: Decisions | None = call.decisions
    if kept is None or kept.version != version or kept.right is not right or kept.principal != call.principal:
        kept = call.decisions = Decisions(right, version, call.principal)
    if name in kept:
        return
    if not may(call, right, name):
        raise errors.TopicAuthorizationFailed
    topic = image.topic(name)
    if topic is not None:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept.add(topic.name)
