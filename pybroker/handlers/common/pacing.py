"""Walks the many items of a request so that they do not block the event loop: in turns (``turns``).

A request stays whole. Where it only computes, its handler is a generator, which yields after each item: others may come
in between there (``in_turns``). Where its items may wait, or belong in one write, ``each`` takes them one by one or
piece by piece. The connection is held meanwhile, so its next request is served after this one. A request that is served
within its first turn waits for nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator
from functools import wraps
from inspect import isawaitable
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar

from pybroker.handlers.common.call import Call, held


class Part(NamedTuple):
    """Some of the partitions that a request names of a topic; ``begin`` of them have come before."""

    topic: Any
    partitions: list[Any]
    begin: int


PIECE: Final = 1000
"""Items that take about a microsecond each: as many as a turn has time for."""

WAITING_AT_ONCE: Final = 64
"""Partitions that wait for their replicas together."""

T = TypeVar("T")
R = TypeVar("R")
Paced = Generator[None, None, R]
"""Work that yields wherever others may come in between, and returns R."""


def in_turns(handle: Callable[..., Paced[R]]) -> Callable[..., R | Awaitable[R]]:
    """Makes a generator ``handle(request, call, …)`` into a handler."""

    @wraps(handle)
    def route(request: Any, call: Call, *rest: Any) -> R | Awaitable[R]:
        return walk(handle(request, call, *rest), call)

    return route


def walk(work: Paced[R], call: Call) -> R | Awaitable[R]:
    """The result of ``work``, or what is awaited for it where one turn has not been enough."""
    turn = call.broker.turns.first_turn()
    try:
        while True:
            next(work)
            if turn.is_over():
                return _go_on(work, call)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def _go_on(work: Paced[R], call: Call) -> R:
    with held(call.connection):
        try:
            while True:
                turn = await call.broker.turns.next_turn()
                next(work)
                while not turn.is_over():
                    next(work)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


async def settled(result: Any) -> Any:
    """What a handler has returned, when it is there."""
    return await result if isawaitable(result) else result


async def in_pieces(items: Iterable[T], do: Callable[[list[T]], object], call: Call) -> None:
    """Calls ``do`` with all items, piece by piece: for items that cost less than a look at the time."""

    def work() -> Paced[None]:
        for piece in pieces(items, PIECE):
            do(piece)
            yield

    await settled(walk(work(), call))


async def one_by_one(items: Iterable[T], do: Callable[[T], Awaitable[R]], call: Call) -> list[R]:
    """What ``await do(item)`` returns for each item. Raises what ``do`` raises. One item holds nothing."""
    rest = iter(items)
    first, second = list(islice(rest, 1)), list(islice(rest, 1))
    if not second:
        return [await do(item) for item in first]
    turn, done = call.broker.turns.first_turn(), []
    with held(call.connection):
        for item in chain(first, second, rest):
            if turn.is_over():
                turn = await call.broker.turns.next_turn()
            done.append(await do(item))
    return done


def pieces(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items; the last one has what is left."""
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece


def parts(topics: Iterable[Any], inner: str, size: int) -> Iterator[list[Part]]:
    """The topics with their partitions (``inner`` of each), ``size`` partitions at a time; at least one list."""
    part: list[Part] = []
    count = number = 0
    for topic in topics:
        partitions, begin = getattr(topic, inner), 0
        while begin < len(partitions) or not begin:
            some = partitions[begin : begin + size - count]
            part.append(Part(topic, some, begin))
            begin += len(some) or 1
            count += len(some) or 1
            if count >= size:
                yield part
                part, count, number = [], 0, number + 1
    if part or not number:
        yield part


def repeated(keys: Iterable[Hashable]) -> Paced[set[Hashable]]:
    """The keys that are there more than once."""
    seen: set[Hashable] = set()
    twice: set[Hashable] = set()
    for key in keys:
        (twice if key in seen else seen).add(key)
        yield
    return twice
