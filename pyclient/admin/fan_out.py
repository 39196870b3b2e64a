"""Runs an operation on several items whose brokers differ: locates them, asks, and retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from pyclient.admin.results import Results
from pyclient.core.client import Client, OutOfTime
from pyclient.core.kinds import Coordinator
from pyclient.errors import KafkaError
from pyclient.protocol import Metadata
from pyclient.protocol.errors import LeaderNotAvailable, UnknownTopicOrPartition
from pyclient.topic_partition import TopicPartition

K = TypeVar("K")
R = TypeVar("R")

Locate = Callable[[Collection[K]], Awaitable[Mapping[K, "int | KafkaError"]]]
Ask = Callable[[int, list[K]], Awaitable[Mapping[K, "R | KafkaError"]]]

LAG_S: Final = 1.0
"""The time for which a broker may still not know a topic that was created through another broker."""


async def fan_out(
    client: Client,
    keys: Iterable[K],
    locate: Locate[K],
    ask: Ask[K, R],
    deadline: float,
    *,
    retry: frozenset[str] | None = None,
) -> Results[K, R]:
    """Asks about each key at the broker that ``locate`` returns, by one request per broker and round.

    Repeats the requests until ``deadline`` after retriable errors, or, if ``retry`` is given, after the errors that it
    names. Repeats nothing if no server can be reached.
    """
    results: Results[K, R] = Results()
    backoff, since = client.backoff(), client.clock()
    pending = list(dict.fromkeys(keys))
    again: dict[K, KafkaError] = {}
    while pending:
        last, again = again, {}
        outcomes = await _round(client, pending, locate, ask, deadline)
        is_hopeless = client.nodes.hopeless() is not None
        for key, outcome in outcomes.items():
            if isinstance(outcome, OutOfTime):
                results.put(key, client.expired(last.get(key, outcome), since, deadline))
            elif isinstance(outcome, KafkaError) and not is_hopeless and _may_retry(outcome, retry):
                again[key] = outcome
            else:
                results.put(key, outcome)
        wait = backoff.next()
        if again and client.clock() + wait > deadline:
            results.errors.update((key, client.expired(error, since, deadline)) for key, error in again.items())
            break
        pending = list(again)
        if pending:
            await asyncio.sleep(wait)
    return results


def _may_retry(error: KafkaError, names: frozenset[str] | None) -> bool:
    return error.retriable if names is None else error.name in names


async def _round(
    client: Client, keys: list[K], locate: Locate[K], ask: Ask[K, R], deadline: float
) -> dict[K, R | KafkaError]:
    outcomes: dict[K, R | KafkaError] = {}
    by_node: dict[int, list[K]] = {}
    try:
        places = await client.within(locate(keys), deadline)
    except KafkaError as error:
        return dict.fromkeys(keys, error)
    for key, place in places.items():
        if isinstance(place, KafkaError):
            outcomes[key] = place
        else:
            by_node.setdefault(place, []).append(key)
    asked = (_ask(client, ask, node, some, deadline) for node, some in by_node.items())
    for answer in await asyncio.gather(*asked):
        outcomes |= answer
    return outcomes


async def _ask(
    client: Client, ask: Ask[K, R], node: int, keys: list[K], deadline: float
) -> dict[K, R | KafkaError]:
    """Returns the outcomes of ``keys``; an error of the whole request applies to each of them."""
    try:
        answer = await client.within(ask(node, keys), deadline)
    except KafkaError as error:
        return dict.fromkeys(keys, error)
    missing = KafkaError("the broker's answer does not contain it")
    return {key: answer.get(key, missing) for key in keys}


class Leaders:
    """Locates partitions: at their leaders, by one Metadata request per round."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._patience = client.clock() + LAG_S

    async def __call__(
        self, keys: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        topics = sorted({key.topic for key in keys})
        try:
            await fetch_metadata(self._client, topics)
        except KafkaError as error:
            return dict.fromkeys(keys, error)
        return {key: self._place(key) for key in keys}

    def _place(self, key: TopicPartition) -> int | KafkaError:
        cluster = self._client.cluster
        leader = cluster.leader(key)
        if leader is not None:
            return leader[0]
        error = cluster.error(key.topic)
        if error is None and cluster.partition(key) is not None:
            return LeaderNotAvailable(f"{key} has no leader")
        if error is None or error.name == "UNKNOWN_TOPIC_OR_PARTITION":
            error = UnknownTopicOrPartition(f"{key} does not exist")
            if self._client.clock() > self._patience:
                error = lasting(error)
        return error


def lasting(error: KafkaError) -> KafkaError:
    """Marks ``error`` as not retriable, and returns it."""
    error.retriable = False  # type: ignore[misc]
    return error


class Coordinators:
    """Locates groups or transactional ids at their coordinators."""

    def __init__(self, client: Client, kind: Coordinator) -> None:
        self._client = client
        self._kind = kind
        self._first = True

    async def __call__(self, keys: Collection[str]) -> dict[str, int | KafkaError]:
        if not self._first:
            self.lost(keys)
        self._first = False
        places = await asyncio.gather(*map(self._place, keys))
        return dict(zip(keys, places, strict=True))

    def lost(self, keys: Collection[str]) -> None:
        """Forgets the coordinators of these keys, because they were wrong."""
        for key in keys:
            self._client.coordinator_lost(key, self._kind)

    async def _place(self, key: str) -> int | KafkaError:
        try:
            return await self._client.coordinator(key, self._kind)
        except KafkaError as error:
            return error


class Anywhere:
    """Locates everything at the controller, or at any broker."""

    def __init__(self, client: Client, *, controller: bool) -> None:
        self._client = client
        self._controller = controller
        self._rounds = 0

    async def __call__(self, keys: Collection[K]) -> dict[K, int | KafkaError]:
        place: int | KafkaError
        try:
            place = await self._place()
        except KafkaError as error:
            place = error
        self._rounds += 1
        return dict.fromkeys(keys, place)

    async def _place(self) -> int:
        if not self._controller:
            return self._client.nodes.any_node()
        if self._rounds or self._client.cluster.controller_id < 0:
            await fetch_metadata(self._client, [])
        return await self._client.controller()


async def fetch_metadata(
    client: Client, topics: Collection[str] | None
) -> Metadata.Response:
    """Requests the metadata of these topics (None: all) once, without creating them, and updates the cluster."""

    def message(version: int) -> Metadata.Request:
        if topics is None:
            return Metadata.Request(topics=[] if version == 0 else None)
        rows = [Metadata.Request.MetadataRequestTopic(name=name) for name in topics]
        if version < 4:
            return Metadata.Request(topics=rows)
        return Metadata.Request(topics=rows, allow_auto_topic_creation=False)

    response: Metadata.Response = await client.send(client.nodes.any_node(), Metadata, message)
    client.learn(response, topics)
    return response
