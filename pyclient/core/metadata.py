"""Keeps the cluster's metadata as fresh as its users need.

A *round* requests all topics in use. It begins soon after a part of the metadata turned out to be stale, and every
metadata.max.age.ms. New topics are requested at once and alone: a client with thousands of topics does not request all
of them because of one more. Only one request is in flight; topics that are wanted meanwhile go into the next one. After
a failure, the next request waits for a back-off. A missing topic has its own back-off, and other topics do not wait for
it.

A topic that is not used for ``max_idle`` is forgotten. A request may create a missing topic only if a call waits for it
or uses it, so a deleted topic is not created again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from pyclient.core.backoff import Backoff
from pyclient.core.cluster import Cluster
from pyclient.core.interest import Interest
from pyclient.core.reports.patience import Patience
from pyclient.core.reports.rare import RareLog
from pyclient.errors import ClientClosed, ClientError, KafkaError, RequestTimedOut, check
from pyclient.protocol import Metadata
from pyclient.protocol.errors import InvalidReplicationFactor, LeaderNotAvailable, UnknownTopicOrPartition

log = logging.getLogger(__name__)

Ask = Callable[[Callable[[int], Metadata.Request]], Awaitable[Metadata.Response]]


def may_pass(error: KafkaError) -> bool:
    """Returns whether a topic with this error may exist later. If a new topic needs more brokers, these may start soon.
    """
    return error.retriable or isinstance(error, InvalidReplicationFactor)


def _hint(error: KafkaError) -> str:
    if isinstance(error, LeaderNotAvailable):
        return " A new topic may lack brokers for its default.replication.factor: their log says so."
    return ""


class MetadataKeeper:
    """Refreshes ``cluster`` through ``ask``, which sends a Metadata request to any broker. Times are in seconds."""

    def __init__(
        self,
        cluster: Cluster,
        ask: Ask,
        backoff: Callable[[], Backoff],
        max_age: float,
        max_idle: float,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.cluster = cluster
        self.trouble: KafkaError | None = None
        """The error of the last request; None if it succeeded."""
        self.watches_all = False
        self.on_update: Callable[[], None] = lambda: None
        self.told: Callable[..., KafkaError] = lambda error, **about: error
        """Adds the missing right to an error (``Rights.told``)."""
        self.closed: Callable[[], KafkaError] = ClientClosed
        """Returns the error for calls that still wait when the client is closed."""
        self.in_use: Callable[[], Mapping[str, bool]] = dict
        """Returns the topics used since its last call, and whether each may be created."""
        self.on_forget: Callable[[Collection[str]], None] = lambda topics: None
        """Called with topics that are no longer requested, so that their metadata become stale."""
        self._ask = ask
        self._new_backoff = backoff
        self._backoff = backoff()
        self._max_age = max_age
        self._max_idle = max_idle
        self._clock = clock
        self._rare = RareLog(log, clock)
        self._loop = loop
        self._wanted: dict[str, Interest] = {}
        self._all_wish = 0  # the last wish for all topics
        self._new: set[str] = set()
        """Topics that a call waits for and no answer has described."""
        self._due = float("inf")
        self._round_due = float("inf")
        self._not_before = 0.0
        self._wish = 0  # counts wishes …
        self._served = 0  # … and this is the last one that a response answered
        self._changed = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    # -- wishes ------------------------------------------------------------------------------------

    def refresh(self, topic: str | None = None, create: bool = False) -> None:
        """Requests fresh metadata soon, including that of ``topic`` if given."""
        at = max(self._clock(), self._not_before)
        if topic is not None:
            at = max(at, self._want(topic, create).not_before)
        self._wish_by(at)

    def _want(self, topic: str, create: bool) -> Interest:
        found = self._wanted.get(topic)
        if found is None:
            found = self._wanted[topic] = Interest(self._clock(), self._new_backoff())
        found.create |= create
        return found

    def forget(self, topics: Collection[str]) -> None:
        """Stops requesting these topics."""
        self._new.difference_update(topics)
        for name in topics:
            self._wanted.pop(name, None)
        self.cluster.forget(topics)
        self.on_forget(topics)

    async def topics(self, names: Collection[str], deadline: float, create: bool) -> None:
        """Waits until these topics are known. Raises the last answer's error about one of them, or the reason why there
        was no answer.
        """
        new = [name for name in names if name not in self._wanted]
        self._new.update(new)
        interests = [self._want(name, create) for name in names]
        for each in interests:
            each.used_at = self._clock()
            each.waiters += 1
        if new:
            self._ask_by(self._clock())
        try:
            await self._until_known(names, deadline, bool(new))
        finally:
            for each in interests:
                each.waiters -= 1

    async def _until_known(self, names: Collection[str], deadline: float, is_asked: bool) -> None:
        patience = Patience(self._rare, self._clock())
        while missing := [name for name in names if self._is_missing(name)]:
            for name in missing if not is_asked else ():
                self.refresh(name)
            is_asked = False
            if not await self.next_update(deadline):
                raise self.why_unknown(missing[0])
            self._raise_lasting(missing)
            if self.trouble is None:
                patience.tell(self.why_unknown(missing[0]), self._clock())

    async def everything(self, deadline: float) -> None:
        """Waits until all topics have been requested once. Raises the error if that fails."""
        self._wish_by(self._clock())
        wish = self._all_wish = self._wish
        while self._served < wish:
            if not await self.next_update(deadline):
                raise self.why_unknown("all topics")
            if self.trouble is not None and not self.trouble.retriable:
                raise self.trouble

    def _is_missing(self, name: str) -> bool:
        return self.cluster.partitions(name) is None or self.cluster.error(name) is not None

    def _raise_lasting(self, names: list[str]) -> None:
        """Raises an error that is not retriable."""
        if self.trouble is not None and not self.trouble.retriable:
            raise self.trouble
        for name in names:
            error = self.cluster.error(name)
            if error is not None and not may_pass(error):
                raise self._told(name, error)

    def why_unknown(self, name: str) -> KafkaError:
        """Returns the error for a topic that did not become known in time."""
        if self.trouble is not None:
            return self.trouble
        error = self.cluster.error(name)
        if error is None:
            return RequestTimedOut(f"topic {name!r} is unknown: no broker has answered in time")
        if isinstance(error, UnknownTopicOrPartition):
            return UnknownTopicOrPartition(f"there is no topic {name!r} ({self._why_not_created(name)})")
        return self._told(name, error)

    def _told(self, name: str, error: KafkaError) -> KafkaError:
        found = self._wanted.get(name)
        is_made = found is not None and found.create
        more = " (and CREATE, if there is no such topic)" if is_made else ""
        return self.told(type(error)(f"{name}: {error.text}{_hint(error)}"), more=more, topic=name)

    def _why_not_created(self, name: str) -> str:
        found = self._wanted.get(name)
        if found is not None and found.create:
            return "auto.create.topics.enable is off at the broker, or it is still being created"
        return "this client may not create it: allow.auto.create.topics"

    # -- the task ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the task. Does nothing if it runs."""
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Ends the task and all waits, because the client is closed."""
        task, self._task = self._task, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        finally:
            self.trouble = self.closed()
            self._notify()

    def _wish_by(self, at: float) -> None:
        """Makes a round begin at that time at the latest."""
        self._round_due = min(self._round_due, at)
        self._ask_by(at)

    def _ask_by(self, at: float) -> None:
        """Makes a request begin at that time at the latest. If no round is due then, it names only new topics."""
        self._wish += 1
        if at < self._due:
            self._due = at
            self._changed.set()
        self.start()

    async def _run(self) -> None:
        while True:
            await self._until_due()
            wish, self._due = self._wish, float("inf")
            is_round = self._round_due <= self._clock()
            if is_round:
                self._round_due = float("inf")
            try:
                await self._request(wish, None if is_round else frozenset(self._new))
            except Exception as fault:  # raised by a listener, and must not end the refreshes
                self._not_before = self._clock() + self._backoff.next()
                context = {"message": "a refresh of the metadata failed", "exception": fault}
                self._loop.call_exception_handler(context)
            now = self._clock()
            again = max(now, self._not_before)
            failed = self._served < wish
            self._round_due = min(self._round_due, again if is_round and failed else now + self._max_age)
            self._due = min(self._due, again if self._new else self._round_due, self._round_due)
            self._notify()

    async def _until_due(self) -> None:
        while (wait := self._due - self._clock()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait == float("inf") else wait):
                    await self._changed.wait()

    async def _request(self, wish: int, new: Collection[str] | None) -> None:
        """Requests ``new`` topics; None means a round. Sets ``trouble`` and ``_not_before``."""
        if new is None:
            self._look_around()
        asked = [*self._wanted] if new is None else [name for name in new if name in self._wanted]
        try:
            for names, create in self._questions(asked, is_round=new is None):
                response = await self._ask(partial(_message, names=names, create=create))
                check(response.error_code)
                self.cluster.update(response, names)
        except KafkaError as error:
            self.trouble = error
            self._not_before = self._clock() + self._backoff.next()
            if isinstance(error, ClientError) and not error.retriable:
                self._give_up(wish)
            return
        log.debug("metadata refreshed: %d topics requested, brokers %s", len(asked), list(self.cluster.brokers))
        self.trouble, self._served = None, wish
        self._new.difference_update(asked)
        self.on_update()
        self._backoff.reset()
        now = self._clock()
        self._not_before = now + self._backoff.first
        for name in asked:
            if name in self._wanted:
                self._wanted[name].on_answer(now, self.cluster.has_leaders(name))

    def _look_around(self) -> None:
        """Updates which topics are in use, and forgets unused ones."""
        now, used = self._clock(), self.in_use()
        for name in used:
            self._want(name, used[name]).used_at = now
        for name, interest in self._wanted.items():
            interest.comes_back = used.get(name, False)
        self.forget([name for name, interest in self._wanted.items() if interest.is_idle(now, self._max_idle)])

    def _give_up(self, wish: int) -> None:
        """Handles a request that cannot be sent. Unknown topics are not requested again, and waiting calls fail."""
        self._new.clear()
        self._wanted = {name: found for name, found in self._wanted.items() if not self._is_missing(name)}
        self._served = wish

    def _questions(self, asked: Collection[str], is_round: bool) -> list[tuple[list[str] | None, bool]]:
        """Returns the requests for these topics: the names (None: all), and whether the broker may create them. A
        request has a single flag for that.
        """
        created = [name for name in asked if self._wanted[name].may_create and self._is_missing(name)]
        if is_round and (self.watches_all or self._all_wish > self._served):
            return [(None, False), *([(created, True)] if created else [])]
        may_be_made = set(created)
        others = [name for name in asked if name not in may_be_made]
        if created:
            return [(created, True), *([(others, False)] if others else [])]
        return [(others, False)]

    async def next_update(self, deadline: float) -> bool:
        """Waits until a request has ended, with or without an answer. Returns False if the deadline comes first."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock())):
                await waiter
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    def _notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _message(version: int, names: list[str] | None, create: bool) -> Metadata.Request:
    """Returns the request for these topics (None: all). In version 0, an empty list means all."""
    if names is None:
        return Metadata.Request(topics=[] if version == 0 else None)
    topics = [Metadata.Request.MetadataRequestTopic(name=name) for name in names]
    if version < 4:  # before that, the broker decides about creation
        return Metadata.Request(topics=topics)
    return Metadata.Request(topics=topics, allow_auto_topic_creation=create)
