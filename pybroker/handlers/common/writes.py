"""Changes the cluster's metadata a hundred items at a time: each piece is one write to the store.

The controller refuses an item that a piece names twice. So if a long request names an item twice, however far apart,
one piece has the item twice, and no other piece has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one, pieces, repeated, settled, walk

ITEMS_AT_ONCE: Final = 100
"""How many items one write has at most. For so many, the write itself takes about as long as the items do."""

T = TypeVar("T")


class Repeated:
    """The items that a request names twice, by their ``keys``."""

    def __init__(self, keys: Iterable[Hashable] = ()) -> None:
        self._twice = frozenset(keys)
        self._told: set[Hashable] = set()

    @classmethod
    async def of(cls, keys: Iterable[Hashable], call: Call) -> Repeated:
        """Walks the keys in turns, and finds those that occur more than once."""
        return cls(await settled(walk(repeated(keys), call)))

    def arranged(self, items: list[T], key: Callable[[T], Hashable], spelled: Callable[[T], Hashable]) -> list[T]:
        """Returns the items of a piece. A repeated item occurs twice in it, and is left out of later pieces.

        ``key`` returns what an item refers to. ``spelled`` also tells apart whether it does so by name or by id.
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
    """Calls ``write`` with the request piece by piece, and joins its responses. Raises what ``write`` raises.

    ``lists`` names the fields with the request's items and their results. ``key`` and ``spelled`` are as for
    ``Repeated``.
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
