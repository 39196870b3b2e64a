"""The engine of producer, consumer and admin: it sends requests to brokers and keeps the cluster's metadata.

It uses one asyncio loop, on which every method is called. Times are seconds of ``clock`` (the loop's time), and
deadlines are points in it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from os import getpid
from random import random as uniform
from typing import Any, TypeVar

from cy.counted import counted
from cy.seconds import seconds
from pyclient.config import Config
from pyclient.core.backoff import Backoff
from pyclient.core.closed import closed
from pyclient.core.cluster import Broker, Cluster
from pyclient.core.deadline import API_TIMEOUT, MAX_BLOCK, Deadline, after
from pyclient.core.kinds import Coordinator, request_of
from pyclient.core.metadata import MetadataKeeper
from pyclient.core.nodes.connection import Pending, Request
from pyclient.core.nodes.nodes import COORDINATORS, Nodes
from pyclient.core.reports.absent_coordinators import AbsentCoordinators
from pyclient.core.reports.patience import Patience
from pyclient.core.reports.rare import RareLog
from pyclient.core.reports.rights import NO_NEEDS, Needs, Rights, principal
from pyclient.errors import (
    STALE_ROUTE,
    ClientClosed,
    ClientForked,
    ConnectionFailed,
    KafkaError,
    RequestTimedOut,
    check,
)
from pyclient.protocol import FindCoordinator, Metadata
from pyclient.protocol.answers import OnDone, answer_on
from pyclient.protocol.apis import Api
from pyclient.protocol.errors import CoordinatorNotAvailable, RebootstrapRequired, UnknownTopicOrPartition
from pyclient.topic_name import check_topics
from pyclient.topic_partition import TopicPartition

T = TypeVar("T")
log = logging.getLogger(__name__)


class OutOfTime(RequestTimedOut):
    """Raised when the application's timeout is over."""


class Client:
    """Sends requests to brokers, which it names by node ids (``nodes``). Connections are opened when first needed, and
    again after a loss.

    ``config`` has the keys of all clients (``pyclient.config.client``): bootstrap.servers, client.id,
    request.timeout.ms, default.api.timeout.ms, retry.backoff.ms and others. With ``separate_coordinators``,
    coordinators have connections of their own, so that commits and heartbeats do not wait behind a fetch. ``needs`` has
    the operations that the client is used for; ``rights`` tells which one is missing.
    """

    cluster: Cluster

    def __init__(
        self,
        config: Config,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] | None = None,
        random: Callable[[], float] = uniform,
        separate_coordinators: bool = False,
        needs: Needs = NO_NEEDS,
    ) -> None:
        self.config = config
        self._coordinator_offset = COORDINATORS if separate_coordinators else 0
        self.loop = loop
        self.clock = clock or loop.time
        self.random = random
        self.cluster = Cluster()
        self.nodes = Nodes(config, self.cluster, loop, self.clock, random)
        self.outages = self.nodes.outages
        self._known_node = self.nodes.by_id.get
        sasl = self.nodes.settings.sasl
        who = principal(config, None if sasl is None else sasl.user)
        self.rights = Rights(who, needs, ",".join(config.bootstrap_servers))
        self._coordinators: dict[tuple[Coordinator, str], int] = {}
        self._absent = AbsentCoordinators()
        self._rare = RareLog(log, self.clock)
        self._error: KafkaError | None = None
        self._process = getpid()
        max_idle = config.metadata_max_idle_ms if "metadata_max_idle_ms" in config else config.request_timeout_ms
        self._keeper = MetadataKeeper(
            self.cluster,
            self._ask_metadata,
            self.backoff,
            config.metadata_max_age_ms / 1000,
            max_idle / 1000,
            self.clock,
            loop,
        )
        self._keeper.told = self.rights.told
        self._keeper.closed = self.closed
        self._keeper.on_update = self.nodes.follow
        self.nodes.settings.on_misrouted = self._on_misrouted

    def backoff(self) -> Backoff:
        """Returns a back-off with retry.backoff.ms and retry.backoff.max.ms."""
        config = self.config
        return Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, self.random)

    # -- metadata ----------------------------------------------------------------------------------

    async def start(self, timeout: float | None = None) -> None:
        """Requests the cluster's metadata from the bootstrap servers until one answers.

        Raises ConnectionFailed after ``timeout`` seconds; None means the setting of ``deadline``. Raises it at once if
        no server can ever answer: no name can be resolved, or each server rejects TLS or SASL.
        """
        await self.reach(self.deadline(timeout))

    async def reach(self, deadline: Deadline) -> None:
        """Like ``start``, until ``deadline``."""
        allowed = deadline - self.clock()
        self.nodes.settings.patience = allowed / len(self.nodes.bootstrap)
        while not self.cluster.brokers:
            self._keeper.refresh()
            in_time = await self._keeper.next_update(deadline)
            self._check_open()
            if (reason := self.nodes.hopeless()) is not None:
                raise reason
            if not in_time:
                raise self.unreached(allowed, deadline)
        self.nodes.settings.patience = float("inf")

    def deadline(self, timeout: float | None = None, setting: str | None = None) -> Deadline:
        """Returns when a call with this timeout in seconds gives up; ``setting`` is the key that the timeout comes
        from. None means max.block.ms if the client has that key, otherwise default.api.timeout.ms. Raises TypeError for
        a timeout that is not a number.
        """
        now, given = self.clock(), seconds(timeout)
        if given is not None:
            return Deadline(now + given, setting)
        if "max_block_ms" in self.config:
            return Deadline(now + self.config.max_block_ms / 1000, MAX_BLOCK)
        return Deadline(now + self.config.default_api_timeout_ms / 1000, API_TIMEOUT)

    def unreached(self, passed: float, deadline: Deadline) -> KafkaError:
        """Returns why the cluster was not reached in ``passed`` seconds: the error of each bootstrap server."""
        trouble = self._keeper.trouble
        if trouble is not None and not isinstance(trouble, ConnectionFailed):
            return trouble
        first, *others = (node.trouble or node.silence() for node in self.nodes.bootstrap)
        told = "".join(f"; {each}" for each in others)
        return first.saying(f"{told}{after(passed, deadline, first.host)}")

    def expired(self, error: KafkaError, since: float, deadline: float) -> KafkaError:
        """Returns the last error of a call that began at ``since`` (of ``clock``) and has no time left. If no server
        was reached, the error says why, and how long the call has tried.
        """
        if isinstance(error, OutOfTime):
            error = self.nodes.trouble() or error
        if not isinstance(error, ConnectionFailed):
            return error
        return error.saying(after(self.clock() - since, deadline, error.host))

    @contextmanager
    def _until(self, deadline: Deadline) -> Iterator[None]:
        """Returns a context for a call that waits until ``deadline``. If no broker is reached by then, the error says
        how long the call has tried, and which setting limits it.
        """
        since = self.clock()
        try:
            yield
        except ConnectionFailed as error:
            if not error.retriable:
                raise
            raise self.expired(error, since, deadline) from error.__cause__

    async def metadata(
        self,
        topics: Collection[str],
        *,
        timeout: float | None = None,
        setting: str | None = None,
        create: bool | None = None,
    ) -> None:
        """Waits until ``cluster`` knows the partitions of these topics. The client keeps their metadata fresh until
        they are unused for metadata.max.idle.ms (request.timeout.ms if the client does not have that key). After
        ``timeout`` seconds (None: the setting of ``deadline``), raises UnknownTopicOrPartition, or the reason why no
        broker answered. Raises InvalidTopicException, TopicAuthorizationFailed and TypeError at once.

        ``create`` tells whether the broker may create them (default: allow.auto.create.topics if the client has that
        key, else True). ``setting`` is the key that ``timeout`` comes from.
        """
        deadline = self.deadline(timeout, setting)
        with self._until(deadline):
            await self.known(topics, deadline, create)

    async def known(self, topics: Collection[str], deadline: Deadline, create: bool | None = None) -> None:
        """Waits until topics are known, as a part of another call. That call chooses the deadline, and whether to
        create topics.
        """
        self._check_open()
        topics = check_topics(topics)
        if create is None:
            create = self.may_create
        await self._keeper.topics(topics, deadline, create)

    @property
    def may_create(self) -> bool:
        """The setting allow.auto.create.topics if the client has that key, else True."""
        return "allow_auto_create_topics" not in self.config or self.config.allow_auto_create_topics

    def uses(
        self,
        topics: Callable[[], Mapping[str, bool]],
        on_forget: Callable[[Collection[str]], None] = lambda topics: None,
    ) -> None:
        """Sets two callbacks. Before each request, ``topics()`` returns the topics used since its last call, and
        whether the broker may create each if it is missing. ``on_forget(topics)`` is called with those that are
        forgotten.
        """
        self._keeper.in_use, self._keeper.on_forget = topics, on_forget

    async def all_topics(self, *, timeout: float | None = None) -> None:
        """Requests all topics of the cluster once. After ``watch_all()``, each refresh requests them all."""
        self._check_open()
        deadline = self.deadline(timeout)
        with self._until(deadline):
            await self._keeper.everything(deadline)

    def why_unknown(self, tp: TopicPartition) -> KafkaError:
        """Returns the reason why ``cluster`` lacks this partition."""
        known = self.cluster.partitions(tp.topic)
        if known is None:
            return self._keeper.why_unknown(tp.topic)
        unknown: type[KafkaError] = UnknownTopicOrPartition
        return unknown(f"topic {tp.topic} has {counted(len(known), 'partition')}: there is no partition {tp.partition}")

    def watch_all(self, wanted: bool = True) -> None:
        """Makes every refresh request all topics, for a consumer that subscribes by a pattern."""
        self._keeper.watches_all = wanted

    def forget(self, topics: Collection[str]) -> None:
        """Stops keeping these topics fresh."""
        self._keeper.forget(topics)

    def refresh(self, topic: str | None = None) -> None:
        """Marks all metadata, or those of ``topic``, as stale. Requests them again soon, at most once per back-off."""
        if self._error is None:
            self._keeper.refresh(topic, self.may_create)

    async def _ask_metadata(self, message: Callable[[int], Metadata.Request]) -> Metadata.Response:
        node = self.nodes.by_id[self.nodes.any_node()]
        response: Metadata.Response = await self.send(node.id, Metadata, message)
        if response.error_code == RebootstrapRequired.code and self.nodes.recovers:
            self._rebootstrap()
            raise ConnectionFailed(node.name, "metadata", RebootstrapRequired())
        return response

    def _on_misrouted(self) -> None:
        self._rebootstrap()
        self.refresh()

    def _rebootstrap(self) -> None:
        """Makes the next request for metadata go to the bootstrap servers (KIP-1102, KIP-1242)."""
        log.info("the brokers of cluster %s have changed: asking the bootstrap servers again", self.cluster.cluster_id)
        self.cluster.forget_brokers()
        self._coordinators.clear()

    async def learn_names(self, topic_ids: Collection[bytes]) -> None:
        """Asks for topics by their ids (16 bytes). Topics that the broker does not have stay unknown."""
        topics = [Metadata.Request.MetadataRequestTopic(topic_id=each, name=None) for each in topic_ids]
        request = Metadata.Request(topics=topics, allow_auto_topic_creation=False)
        response = await self.send(self.nodes.any_node(), Metadata, request)
        self.learn(response, [row.name for row in response.topics if row.name])

    def learn(self, response: Metadata.Response, asked: Collection[str] | None) -> None:
        """Updates the cluster from a Metadata response to the caller's request for these topics (None: all)."""
        self.cluster.update(response, asked)
        self.nodes.follow()

    # -- requests ----------------------------------------------------------------------------------

    async def send(
        self,
        node: int,
        api: Api,
        message: Request,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> Any:
        """Sends one request, once, and returns its response (None for Produce with acks=0).

        ``timeout`` is in seconds, request.timeout.ms by default. Raises the retriable errors ConnectionLost,
        ConnectionFailed and RequestTimedOut, and also UnsupportedByBroker and ClientClosed. The caller handles error
        codes in the response.
        """
        self.check_process()
        answer, on_done = answer_on(self.loop)
        self.post(node, api, message, on_done, timeout=timeout, max_version=max_version)
        return await answer

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
        """Like ``send``, without a task: calls ``on_done(response, None)`` or ``on_done(None, error)`` exactly once, on
        the loop, and never before ``post`` returns.

        Requests to a node are sent in the order of their posts, including those posted before it was connected. When
        the connection ends, all requests in flight fail together, in their order. Records of a Fetch response are
        memoryviews that stay valid as long as they are referenced.
        """
        found = None if self._error is not None else self._known_node(node) or self.nodes.find(node)
        if found is None:
            error = self._error or ConnectionFailed(f"broker {node}", "connect", "no address known")
            self.loop.call_soon(on_done, None, error)
            return
        if timeout is None:
            timeout = self.nodes.settings.request_timeout
        found.post(Pending(api, message, on_done, self.clock() + timeout, max_version))

    async def controller(self) -> int:
        """Returns the node for requests to the controller; any node if the metadata name none."""
        known = self.cluster.controller_id
        return known if known in self.cluster.brokers else self.nodes.any_node()

    # -- coordinators ------------------------------------------------------------------------------

    async def coordinator(self, key: str, kind: Coordinator) -> int:
        """Returns the node that coordinates a group or transactional id, which is remembered until
        ``coordinator_lost``. Makes one attempt: raises CoordinatorNotAvailable and other errors that ``retrying``
        retries.
        """
        known = self._coordinators.get((kind, key))
        if known is None:
            known = self._coordinators[kind, key] = await self._find_coordinator(key, kind)
        return known

    async def _find_coordinator(self, key: str, kind: Coordinator) -> int:
        node_id = self.nodes.any_node()
        response = await self.send(node_id, FindCoordinator, lambda version: request_of(version, key, kind))
        row = response.coordinators[0] if response.coordinators else response
        try:
            check(row.error_code, row.error_message)
        except KafkaError as error:
            if isinstance(error, CoordinatorNotAvailable):
                self._absent.tell(key, error, self.clock())
            raise self.rights.told(error, group=key, transactional_id=key) from None
        self._absent.end(key)
        self.cluster.add_broker(Broker(row.node_id, row.host, row.port))
        node = self.nodes.find(row.node_id + self._coordinator_offset)
        assert node is not None
        node.move(row.host, row.port)
        log.debug("the coordinator of %s %s is broker %d", kind.name.lower(), key, row.node_id)
        return node.id

    def coordinator_lost(self, key: str, kind: Coordinator) -> None:
        """Forgets a coordinator that answered NOT_COORDINATOR or is unreachable: the next call of ``coordinator`` looks
        it up again.
        """
        self._coordinators.pop((kind, key), None)

    # -- retries -----------------------------------------------------------------------------------

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, deadline: float) -> T:
        """Returns the result of ``attempt``. After a retriable error, it tries again after a back-off with jitter,
        until ``deadline`` (of ``clock``), which also ends an attempt. Then it raises the last error. Refreshes the
        metadata if the error says that they are stale. Raises at once if no server can be reached. If a partition is
        still missing after a while, logs which.
        """
        since = self.clock()
        backoff, patience = self.backoff(), Patience(self._rare, since)
        last: KafkaError | None = None
        while True:
            self._check_open()
            try:
                return await self.within(attempt(), deadline)
            except KafkaError as error:
                wait = backoff.next()
                if isinstance(error, OutOfTime):
                    raise self.expired(last or error, since, deadline) from None
                if not error.retriable or self.nodes.hopeless() is not None:
                    raise
                if self.clock() + wait > deadline:
                    raise self.expired(error, since, deadline) from error.__cause__
                if error.name in STALE_ROUTE:
                    self.refresh()
                if isinstance(error, UnknownTopicOrPartition):
                    patience.tell(error, self.clock())
                last = error
            await asyncio.sleep(wait)

    async def within(self, work: Awaitable[T], deadline: float) -> T:
        """Returns the result of ``work``. Cancels it at ``deadline`` (of ``clock``), and raises OutOfTime."""
        left = None if deadline == math.inf else max(0.0, deadline - self.clock())
        try:
            async with asyncio.timeout(left) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise OutOfTime("no broker has answered in time") from None

    # -- the end -----------------------------------------------------------------------------------

    def check_process(self) -> None:
        """Raises ClientForked in a child process, where the client's loop does not run."""
        if getpid() != self._process:
            raise ClientForked

    def _check_open(self) -> None:
        self.check_process()
        if self._error is not None:
            raise self.closed()

    def closed(self) -> ClientClosed:
        """Returns the error, which names this client, for calls after the close."""
        return closed(self.config)

    async def close(self, timeout: float = 0.0) -> None:
        """Waits up to ``timeout`` seconds for the requests in flight, then fails them with ClientClosed. Does nothing
        in a forked child.
        """
        if getpid() != self._process:
            return  # the loop shares its selector with the parent
        deadline = self.clock() + timeout
        error = self.closed()
        try:
            while any(node.in_flight for node in self.nodes.by_id.values()) and self.clock() < deadline:
                await asyncio.sleep(0.01)
        finally:
            self._error = error
            try:
                await self._keeper.stop()
            finally:
                self.nodes.close(error)
