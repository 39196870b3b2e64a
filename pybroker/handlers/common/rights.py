"""What a client may do (KIP-11): each API's row says what it needs, and handlers ask here. The authorizer decides.

Where there is no authorizer, everybody may do everything. A broker of this cluster that has proved itself may, too: it
has all the records anyway. What it hands on for a client counts as the client's (``forwarding``).

Rights to the cluster that concern a whole request are asked before its handler (``guarded``). Rights to topics, groups
and transactional ids are asked by the handler, before it tells whether they exist.
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
"""Names that are kept for a connection; only those of topics that exist."""

T = TypeVar("T")
Handle = Callable[[Any, Call], Any]
Refuse = Callable[[Any, Call, errors.KafkaError], Any]


class Right(NamedTuple):
    """One operation on one kind of resource."""

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
"""The error of a client that lacks a right to that kind of resource."""


class Needs(NamedTuple):
    """What an API needs. ``refuse``: the response to a client that has none of the ``rights``, where they are asked
    before the handler; None where the handler asks, item by item.
    """

    rights: tuple[Right, ...]
    refuse: Refuse | None = None


NOTHING: Final = Needs(())
"""Everybody may ask it."""


def each(*rights: Right) -> Needs:
    """The handler asks for these rights, to each resource that the request names."""
    return Needs(rights)


def whole(refuse: Refuse, *rights: Right) -> Needs:
    """One of these rights to the cluster is asked before the handler."""
    return Needs(rights, refuse)


def at_top(api: Any) -> Refuse:
    """The response of an API that has one error for all."""

    def refuse(request: Any, call: Call, error: errors.KafkaError) -> Any:
        response = api.Response(error_code=error.code)
        if hasattr(response, "error_message"):
            response.error_message = str(error)
        return response

    return refuse


def guarded(handle: Handle, needs: Needs) -> Handle:
    """The handler, before which the rights to the cluster are asked where ``needs`` says so."""
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
    """Whether the client has the right to the resource of that name. ``is_told``: to the audit log, if it has not."""
    authorizer = call.broker.authorizer
    if authorizer is None or call.is_of_broker:
        return True
    operation, kind = right
    return authorizer.authorize(call.principal, call.host, operation, kind, name, request=call.api, is_told=is_told)


def may_any(call: Call, right: Right) -> bool:
    """Whether the client has the right to any resource of its kind."""
    authorizer = call.broker.authorizer
    if authorizer is None or call.is_of_broker:
        return True
    return authorizer.authorize_any(call.principal, call.host, right.operation, right.kind)


def check(call: Call, right: Right, name: str = CLUSTER_NAME) -> None:
    """Raises the error of the kind of resource where the client lacks the right."""
    if call.broker.authorizer is not None and not may(call, right, name):
        raise DENIED[right.kind]


def seeing(call: Call) -> Callable[[str], bool] | None:
    """Whether the client may know of a topic, by its name; None where it may of all."""
    return None if call.broker.authorizer is None else partial(may, call, DESCRIBE_TOPIC, is_told=False)


async def permitted(call: Call, right: Right, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Those of the items to which the client has the right, by their names; many are asked for in turns."""
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
    """As ``check``, of many names in turns."""

    def asked() -> Paced[None]:
        for name in names:
            yield
            check(call, right, name)

    await settled(walk(asked(), call))


class Decisions(set[str]):
    """Names to which the authorizer has allowed one right, while its ACLs and the principal were the same. What it
    denies is asked each time, as the audit log tells it again some time.
    """

    __slots__ = ("principal", "right", "version")

    def __init__(self, right: Right, version: int, principal: str) -> None:
        super().__init__()
        self.right = right
        self.version = version
        self.principal = principal


def check_topic(call: Call, right: Right, name: str | None, topic_id: bytes) -> None:
    """As ``check``, for requests that name the same topics again and again: by name, or if that is None by id.

    There must be an authorizer. Raises TopicAuthorizationFailed, UnknownTopicId.
    """
    image: MetadataImage = call.broker.replicas.partitions.image
    if name is None:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            raise errors.UnknownTopicId(f"there is no topic of id {topic_id.hex()}")
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
