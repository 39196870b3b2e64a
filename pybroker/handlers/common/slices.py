"""Serves a request with many items as a series of small ones, so that it does not block the event loop.

Each row of ``SPLITS`` says where the items of a request are, and where their answers: paths of fields, list by list.
A slice is the request with some of its items; the handler gets slice after slice, and knows nothing of it. Slices grow
and shrink to the time of a turn (``turns``). The answers are put together as if the request had been served as a whole.

What holds for a request as a whole holds over its slices. An item that may be there once, and is there twice, gets its
handler's refusal: its slice has it twice, and later slices do not have it. The error of a group, in any slice, is its
whole answer. A timeout is that of the request: each slice has what is left of it.

The connection waits meanwhile: its next request is served after this one. Requests of fewer than ``at_once`` items go
to their handlers as they are. If a request's items belong together (a generation's assignments, a fetch session),
there is no row. Instead, the size of such requests is limited (``WHOLE_UNITS``).
"""

from __future__ import annotations

import copy
from asyncio import Future
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import iscoroutine
from itertools import islice
from typing import Any, Final, NamedTuple

from pybroker import waiting
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.turns import TURN_S
from pyclient.protocol import (
    ZERO_UUID,
    AlterConfigs,
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    IncrementalAlterConfigs,
)
from pyclient.protocol.apis import Api

FIRST: Final = 16
"""Items of the first slice."""
LARGEST: Final = 4096
WHOLE_UNITS: Final = 100_000
"""What a request without a row may hold (``net.apart``)."""

ERRORS: Final = frozenset(("error_code", "error_message"))
"""The fields of an answer that say why there is none."""

NOTHING: Final = MetadataImage()

Path = tuple[str, ...]
Row = tuple[Any, ...]


class Split(NamedTuple):
    """Where the items of a request are, and the answers in the response.

    ``at_once``: so many items are not many. ``thing``: what a row of ``leaves`` is about, where a request may not name
    it twice. A slice has ``least`` to ``most`` items, where there are as many: a write to the store costs as much as a
    hundred topics; a slice that other replicas must have before it is answered waits for them, however few its items
    are; and what this broker hands on to the controller the other one has to decode.
    """

    asked: Path
    told: Path
    at_once: int = 64
    thing: Callable[[Row, MetadataImage], Hashable] | None = None
    least: int = 1
    most: int = LARGEST


def topic(row: Row, image: MetadataImage) -> Hashable:
    """A topic, by name."""
    return row[0].name  # type: ignore[no-any-return]


def partition(row: Row, image: MetadataImage) -> Hashable:
    """A partition of a topic."""
    return row[0].name, row[1].partition_index if len(row) > 1 else None


def topic_or_id(row: Row, image: MetadataImage) -> Hashable:
    """Returns a topic by name or id; an unknown id stands for itself."""
    if isinstance(row[0], str):
        return row[0]
    name, id = row[0].name, row[0].topic_id
    if id == ZERO_UUID:
        return name  # type: ignore[no-any-return]
    found = image.topic_by_id(id)
    return id if found is None else found.name


RESOURCES = ("resources",)

SPLITS: Mapping[Api, tuple[Split, ...]] = {
    AlterConfigs: (Split(RESOURCES, ("responses",), most=500),),
    AlterPartitionReassignments: (
        Split(("topics", "partitions"), ("responses", "partitions"), 1000, partition, 100, 1000),
    ),
    CreatePartitions: (Split(("topics",), ("results",), 200, topic, 100, 200),),
    CreateTopics: (Split(("topics",), ("topics",), 200, topic, 100, 200),),
    DeleteTopics: (
        Split(("topics",), ("responses",), 200, topic_or_id, 100, 200),
        Split(("topic_names",), ("responses",), 200, topic_or_id, 100, 200),
    ),
    ElectLeaders: (
        Split(
            ("topic_partitions", "partitions"), ("replica_election_results", "partition_result"), 1000, None, 100, 1000
        ),
    ),
    IncrementalAlterConfigs: (Split(RESOURCES, ("responses",), most=500),),
}


def sliced(handle: Callable[[Any, Call], Any], splits: tuple[Split, ...]) -> Callable[[Any, Call], Any]:
    """``handle``, slice by slice where a request has many items."""

    @wraps(handle)
    def route(request: Any, call: Call) -> Any:
        for split in splits:
            if exceeds(getattr(request, split.asked[0]), split.asked[1:], split.at_once):
                return in_slices(handle, split, request, call)
        return handle(request, call)

    return route


async def in_slices(handle: Callable[[Any, Call], Any], split: Split, request: Any, call: Call) -> Any:
    """The response to a request of many items. Raises what ``handle`` raises."""
    items = leaves(getattr(request, split.asked[0]), split.asked)
    merged, size, turns = None, max(FIRST, split.least), call.broker.turns
    time_left = Timeout(request, call)
    call.connection.hold()
    try:
        repeated = await Repeated.of(request, split, call)
        while rows := list(islice(items, size)):
            await turns.next_turn()
            began = turns.busy_s()
            rows = repeated.arranged(rows)
            if not rows:
                continue
            part = copy.copy(request)
            setattr(part, split.asked[0], build(rows, split.asked))
            time_left.set(part)
            result = handle(part, call)
            if iscoroutine(result):
                result = waiting.start(result, call.broker.loop)
            response = await result if isinstance(result, Future) else result
            size = min(max(split.least, fitting(size, turns.busy_s() - began)), split.most)
            merged = response if merged is None else merge(merged, response, split)
    finally:
        call.connection.release()
    return merged


class Timeout:
    """The time that a request leaves its broker, over its slices."""

    def __init__(self, request: Any, call: Call) -> None:
        self._clock = call.broker.clock
        self._limit_ms: int = getattr(request, "timeout_ms", 0)
        self._began_ms = self._clock.monotonic_ms() if self._limit_ms > 0 else 0

    def set(self, part: Any) -> None:
        """A slice has what is left."""
        if self._limit_ms > 0:
            part.timeout_ms = max(0, self._limit_ms - (self._clock.monotonic_ms() - self._began_ms))


class Repeated:
    """The rows about things that the request names twice."""

    def __init__(self, split: Split, call: Call) -> None:
        self._thing = split.thing
        self._image = NOTHING if split.thing is None else call.broker.metadata.image
        self._seen: set[Hashable] = set()
        self._twice: set[Hashable] = set()
        self._told: set[Hashable] = set()

    @classmethod
    async def of(cls, request: Any, split: Split, call: Call) -> Repeated:
        """Looks at all rows, in turns."""
        repeated = cls(split, call)
        if split.thing is not None:
            rows = leaves(getattr(request, split.asked[0]), split.asked)
            await call.broker.turns.in_pieces(rows, repeated._look)
        return repeated

    def _look(self, rows: Iterable[Row]) -> None:
        assert self._thing is not None
        for row in rows:
            thing = self._thing(row, self._image)
            (self._twice if thing in self._seen else self._seen).add(thing)

    def arranged(self, rows: list[Row]) -> list[Row]:
        """The rows of a slice: one whose thing is named twice stands there twice, and later not any more."""
        if self._thing is None or not self._twice:
            return rows
        arranged = []
        for row in rows:
            thing = self._thing(row, self._image)
            if thing not in self._twice:
                arranged.append(row)
                continue
            told = (thing, getattr(row[0], "topic_id", None))
            if told not in self._told:
                self._told.add(told)
                arranged += [row, row]
        return arranged


def fitting(size: int, took_s: float) -> int:
    """The next slice's size, where the loop was busy for so long with one of ``size`` (and with what came between)."""
    if took_s > TURN_S:
        return max(1, size // 2)
    return min(LARGEST, 2 * size) if took_s < TURN_S / 4 else size


def exceeds(items: Sequence[Any] | None, path: Path, limit: int) -> bool:
    """Whether there are more than ``limit`` items at the end of ``path``."""
    if not items:
        return False
    if len(items) > limit or not path:
        return len(items) > limit
    count = 0
    for item in items:
        inner = getattr(item, path[0])
        if len(path) > 1 and exceeds(inner, path[1:], limit):
            return True
        count += len(inner) if inner else 1
        if count > limit:
            return True
    return False


def leaves(items: Sequence[Any], path: Path) -> Iterator[tuple[Any, ...]]:
    """Each item at the end of ``path``, behind those that hold it; one that holds nothing stands for itself."""
    for item in items:
        inner = getattr(item, path[1]) if len(path) > 1 else None
        if not inner:
            yield (item,)
        elif len(path) == 2:
            for leaf in inner:
                yield item, leaf
        else:
            for row in leaves(inner, path[1:]):
                yield item, *row


def build(rows: Sequence[tuple[Any, ...]], path: Path, depth: int = 0) -> list[Any]:
    """The inverse of ``leaves``: copies of what holds them, with these items only."""
    built: list[Any] = []
    begin = 0
    while begin < len(rows):
        item, end = rows[begin][depth], begin + 1
        if len(rows[begin]) > depth + 1:
            while end < len(rows) and len(rows[end]) > depth + 1 and rows[end][depth] is item:
                end += 1
            item = copy.copy(item)
            setattr(item, path[depth + 1], build(rows[begin:end], path, depth + 1))
        built.append(item)
        begin = end
    return built


def merge(merged: Any, response: Any, split: Split) -> Any:
    """Puts ``response`` behind what has been answered. The first error of the whole stands, with its message."""
    if not getattr(merged, "error_code", True) and response.error_code:
        refuse(merged, response)
    join(getattr(merged, split.told[0]), getattr(response, split.told[0]), split.told)
    return merged


def refuse(answer: Any, refusal: Any) -> None:
    """``answer`` gets the error of ``refusal``, another one of its type."""
    for name in ERRORS.intersection(type(answer).__layout__.names):
        setattr(answer, name, getattr(refusal, name))


def join(into: list[Any], more: list[Any], path: Path) -> None:
    """Appends ``more``; what was cut in two between slices becomes one again.

    Where one of the two is an error (that of a group), it is the answer of both: an answer without some of its items
    looks like one of nothing there.
    """
    if into and more and len(path) > 1 and is_cut(into[-1], more[0], path[1]):
        first, rest, more = into[-1], more[0], more[1:]
        if getattr(first, "error_code", 0):
            rest = first
        if getattr(rest, "error_code", 0):
            into[-1] = rest
        else:
            join(getattr(first, path[1]), getattr(rest, path[1]), path[1:])
    into.extend(more)


def is_cut(left: Any, right: Any, field: str) -> bool:
    """True where the two differ only in the list ``field``, and in whether they are an error."""
    names = type(left).__layout__.names
    return all(name == field or name in ERRORS or getattr(left, name) == getattr(right, name) for name in names)
