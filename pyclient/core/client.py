"""The engine of producer, consumer and admin: sends requests to brokers, keeps the cluster's metadata.

Lives on one asyncio loop; every method is called on it. Times are seconds of ``clock`` (the loop's
time), deadlines are points in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from enum import IntEnum
from random import random as uniform
from typing import Any, TypeVar

from cy.messages import Message
from pyclient.config import Config
from pyclient.core.cluster import Cluster
from pyclient.errors import KafkaError
from pyclient.protocol.apis import Api

T = TypeVar("T")
OnDone = Callable[[Any, KafkaError | None], None]
Request = Message | Callable[[int], Message]
"""A message, or what makes it for the version that is going to be used."""


class Coordinator(IntEnum):
    """What a coordinator coordinates: FindCoordinator's ``key_type``."""

    GROUP = 0
    TRANSACTION = 1


GROUP, TRANSACTION = Coordinator.GROUP, Coordinator.TRANSACTION


class Client:
    """Requests to brokers by node id; connections are made when first needed and made again.

    ``config``: the keys that all clients have (``pyclient.config.client``): bootstrap.servers,
    client.id, request.timeout.ms, default.api.timeout.ms, retry.backoff.ms …
    """

    cluster: Cluster

    def __init__(
        self,
        config: Config,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] | None = None,
        random: Callable[[], float] = uniform,
    ) -> None: ...

    async def start(self, timeout: float | None = None) -> None:
        """Asks a bootstrap server for the cluster. Raises ConnectionFailed when ``timeout`` seconds
        (default.api.timeout.ms, at most 60 s) are over; names that cannot be resolved at once.
        """

    async def metadata(self, topics: Collection[str], *, timeout: float, create: bool | None = None) -> None:
        """Returns when ``cluster`` knows the partitions of these topics, which it keeps fresh from
        then on. Raises UnknownTopicOrPartition when ``timeout`` seconds are over;
        InvalidTopicException, TopicAuthorizationFailed at once.

        ``create``: whether the broker may create them (allow.auto.create.topics).
        """

    async def all_topics(self, *, timeout: float) -> None:
        """Asks for all topics of the cluster, once. ``watch_all()`` keeps asking for all."""

    def watch_all(self, wanted: bool = True) -> None:
        """Every refresh asks for all topics from now on (a consumer that subscribes by pattern)."""

    def forget(self, topics: Collection[str]) -> None:
        """These topics need not be kept fresh any more."""

    def refresh(self, topic: str | None = None) -> None:
        """What is known (of the topic) is stale: asks again soon, at most once per back-off."""

    async def send(
        self,
        node: int,
        api: Api,
        message: Request,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> Any:
        """Sends one request, once, and returns its response (None to Produce with acks=0).

        ``timeout`` in seconds, request.timeout.ms by default. Raises ConnectionLost,
        ConnectionFailed, RequestTimedOut, which are retriable; UnsupportedByBroker, ClientClosed,
        which are not. Error codes in the response are the caller's.
        """

    def post(
        self,
        node: int,
        api: Api,
        message: Request,
        on_done: OnDone,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> None:
        """As ``send``, without a task: ``on_done(response, None)`` or ``on_done(None, error)``,
        exactly once, on the loop, maybe before ``post`` returns only if the client is closed.

        Requests to a node are sent in the order of their posts, also those of before it was
        connected. All in flight fail together when the connection ends. Records of a Fetch
        response are memoryviews that stay valid as long as they are referenced.
        """

    def in_flight(self, node: int) -> int:
        """Requests to the node that wait for their responses, or to be sent."""
        return 0

    def is_ready(self, node: int) -> bool:
        """True when a request would go out at once: connected, versions known."""
        return False

    def version(self, node: int, api: Api, max_version: int | None = None) -> int:
        """The version that a request would have now. Before the node's versions are known that of
        any other node, else the newest. Raises UnsupportedByBroker.
        """
        return 0

    def any_node(self) -> int:
        """A node for a request that any broker can serve: the least loaded; a bootstrap server
        (a negative id) while no broker is known. -> its id
        """
        return 0

    async def coordinator(self, key: str, kind: Coordinator) -> int:
        """The node that coordinates a group or transactional id; remembered until
        ``coordinator_lost``. One attempt: raises CoordinatorNotAvailable and others that
        ``retrying`` retries.
        """
        return 0

    def coordinator_lost(self, key: str, kind: Coordinator) -> None:
        """It answered NOT_COORDINATOR or is gone: the next ``coordinator`` asks again."""

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, deadline: float) -> T:
        """What ``attempt`` returns; again after a back-off with jitter while it raises retriable
        errors, until ``deadline`` (of ``clock``), when the last of them is raised. Refreshes the metadata where the
        error says it is stale.
        """
        return await attempt()

    async def close(self, timeout: float = 0.0) -> None:
        """Fails what is in flight with ClientClosed, after ``timeout`` seconds at most to finish."""
