"""The rights that a method of the admin client needs. An authorization error then names the missing right and how to
grant it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from pyclient.admin.results import Results
from pyclient.admin.types import ConfigResource
from pyclient.core.reports.rights import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, Needs
from pyclient.errors import DENIED, KafkaError
from pyclient.protocol.acls import AclOperation
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.admin.base import Base

S = TypeVar("S", bound="Base")
P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, R]]


def needing(
    *,
    topic: AclOperation | None = None,
    group: AclOperation | None = None,
    transactional_id: AclOperation | None = None,
    cluster: AclOperation | None = None,
) -> Callable[[Method[S, P, R]], Method[S, P, R]]:
    """Declares the operations that a method needs on each kind of resource."""
    given = {TOPIC: topic, GROUP: group, TRANSACTIONAL_ID: transactional_id, CLUSTER: cluster}
    needs = {kind: operation for kind, operation in given.items() if operation is not None}

    def decorate(method: Method[S, P, R]) -> Method[S, P, R]:
        shape = signature(method)
        has_results = "check" in shape.parameters

        @functools.wraps(method)
        async def call(self: S, /, *arguments: P.args, **keywords: P.kwargs) -> R:
            check = keywords.pop("check", True)
            for name in keywords.keys() - shape.parameters.keys():
                near = get_close_matches(name, [each for each in shape.parameters if each != "self"], 1)
                hint = f": did you mean {near[0]}?" if near else ""
                raise TypeError(f"{method.__name__}() has no argument {name!r}{hint}")
            more: Any = {"check": False} if has_results else {}
            try:
                found = await method(self, *arguments, **keywords, **more)
            except KafkaError as error:
                if error.name not in DENIED:
                    raise
                about = shape.bind(self, *arguments, **keywords).arguments
                topic, group, id = (about.get(kind) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID))
                raise self._client.rights.told(error, needs, topic=topic, group=group, transactional_id=id) from None
            if isinstance(found, Results):
                _tell(self, found, needs)
                found.checked(bool(check))
            return found

        return call

    return decorate


def _tell(admin: Base, results: Results[Any, Any], needs: Needs) -> None:
    for key, error in results.errors.items():
        if error.name in DENIED:
            rights, name = admin._client.rights, _name(key)
            results.errors[key] = rights.told(error, needs, topic=name, group=name, transactional_id=name)


def _name(key: Any) -> str | None:
    """Returns the name of the topic, group or transactional id that an item belongs to."""
    found = key.topic if isinstance(key, TopicPartition) else key.name if isinstance(key, ConfigResource) else key
    return found if isinstance(found, str) else None
