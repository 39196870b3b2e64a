"""Serves a request with many items in turns (``turns``), so that it does not block the event loop.

The request stays whole. A handler that only computes is a generator, which yields after each item; other requests may
be served there (``in_turns``). If items have to wait, or share a write, ``one_by_one`` takes them one after another or
piece by piece. The connection is held meanwhile, so its next request is served after this one. A request that ends
within its first turn is not delayed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator
from functools import wraps
from inspect import isawaitable
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar

from pybroker.handlers.common.call import Call, held


class Part(NamedTuple):
    """Some partitions of one topic of a request; ``begin`` is the first one's index among all partitions of the topic.
    """

    topic: Any
    partitions: list[Any]
    begin: int


PIECE: Final = 1000
"""How many items of about a microsecond fit into a turn."""

WAITING_AT_ONCE: Final = 64
"""How many partitions wait for their replicas at the same time."""

T = TypeVar("T")
R = TypeVar("R")
Paced = Generator[None, None, R]
"""Work that yields wherever other requests may be served, and returns R."""


def in_turns(handle: Callable[..., Paced[R]]) -> Callable[..., R | Awaitable[R]]:
    """Turns a generator ``handle(request, call, …)`` into a handler."""

    @wraps(handle)
    def route(request: Any, call: Call, *rest: Any) -> R | Awaitable[R]:
        return walk(handle(request, call, *rest), call)

    return route


def walk(work: Paced[R], call: Call) -> R | Awaitable[R]:
    """Returns the result of ``work``, or an awaitable of it if one turn was not enough."""
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
    """Returns a handler's result, and awaits it first if it is an awaitable."""
    return await result if isawaitable(result) else result


async def in_pieces(items: Iterable[T], do: Callable[[list[T]], object], call: Call) -> None:
    """Calls ``do`` with lists of items, in turns. Use it if an item takes less time than reading the clock."""

    def work() -> Paced[None]:
        for piece in pieces(items, PIECE):
            do(piece)
            yield

    await settled(walk(work(), call))


async def one_by_one(items: Iterable[T], do: Callable[[T], Awaitable[R]], call: Call) -> list[R]:
    """Returns what ``await do(item)`` returns for each item. Raises what ``do`` raises.

    Holds the connection, except for a single item.
    """
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
    """Yields lists of ``size`` items; the last one has the rest."""
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece


def parts(topics: Iterable[Any], inner: str, size: int) -> Iterator[list[Part]]:
    """Yields the topics with their partitions (field ``inner``), ``size`` partitions at a time; at least one list."""
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
    """Finds the keys that occur more than once."""
    seen: set[Hashable] = set()
    twice: set[Hashable] = set()
    for key in keys:
        (twice if key in seen else seen).add(key)
        yield
    return twice
