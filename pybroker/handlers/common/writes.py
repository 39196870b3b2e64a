"""Changes of the cluster's metadata, a hundred items at a time: each piece is one write to the store.

A function that decides on a piece refuses what the piece names twice. So what a long request names twice, however far
apart, stands twice in one piece, and in no other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one, pieces, repeated, settled, walk

ITEMS_AT_ONCE: Final = 100
"""Items of one write, which costs as much as they do."""

T = TypeVar("T")


class Repeated:
    """What a request names twice: ``keys`` of its items."""

    def __init__(self, keys: Iterable[Hashable] = ()) -> None:
        self._twice = frozenset(keys)
        self._told: set[Hashable] = set()

    @classmethod
    async def of(cls, keys: Iterable[Hashable], call: Call) -> Repeated:
        """Looks at the keys of all items, in turns."""
        return cls(await settled(walk(repeated(keys), call)))

    def arranged(self, items: list[T], key: Callable[[T], Hashable], spelled: Callable[[T], Hashable]) -> list[T]:
        """The items of a piece. One that is named twice stands there twice, and in later pieces not any more.

        An item's ``key`` says what it names, and ``spelled`` how.
        """
        if not self._twice:
            return items
        arranged = []
        for item in items:
            if key(item) not in self._twice:
                arranged.append(item)
            elif spelled(item) not in self._told:
                self._told.add(spelled(item))
                arranged += [item, item]
        return arranged


async def in_writes(
    request: Any,
    call: Call,
    write: Callable[[Any, Call], Awaitable[Any]],
    lists: tuple[str, str],
    key: Callable[[Any], Hashable],
    spelled: Callable[[Any], Hashable] | None = None,
) -> Any:
    """The response of ``write`` to the whole request, which is written piece by piece. Raises what ``write`` raises.

    ``lists``: the fields of the request's items and of their answers. ``key``, ``spelled``: as for ``Repeated``.
    """
    asked, told = lists
    items: Sequence[Any] = getattr(request, asked)
    is_long = len(items) > ITEMS_AT_ONCE
    named_twice = await Repeated.of(map(key, items), call) if is_long else Repeated()

    def arranged() -> Iterator[list[Any]]:
        for piece in pieces(items, ITEMS_AT_ONCE):
            if arranged := named_twice.arranged(piece, key, spelled or key):
                yield arranged

    async def write_some(piece: Sequence[Any]) -> Any:
        setattr(request, asked, piece)
        return await write(request, call)

    response, *others = await one_by_one(arranged() if is_long else [items], write_some, call)
    for other in others:
        getattr(response, told).extend(getattr(other, told))
    return response
