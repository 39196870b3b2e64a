"""A name of another library as an attribute of a class, which only raises an error.

Both Python's classes and Cython's use it. ``__getattr__`` would make every other attribute slower, also
``producer.send`` and ``record.value``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn, overload

PAGE: Final = "docs/coming-from.md"


class OtherName:
    """A name that only another library has. On an object it raises AttributeError, so ``hasattr`` is false. On a class
    it returns this descriptor.
    """

    __slots__ = ("_here", "_name", "_page")

    def __init__(self, name: str, here: str, page: str = PAGE) -> None:
        self._name = name
        self._here = here
        self._page = page

    def __repr__(self) -> str:
        return f"<of other libraries; here: {self._here}>"

    @overload
    def __get__(self, instance: None, owner: type) -> OtherName: ...
    @overload
    def __get__(self, instance: object, owner: type) -> NoReturn: ...
    def __get__(self, instance: object, owner: type) -> OtherName:
        if instance is None:
            return self
        raise AttributeError(told(f"{owner.__name__!r} object", self._name, self._here, self._page))


def told(whose: str, name: str, here: str, page: str = PAGE) -> str:
    """Returns the text of the error."""
    return f"{whose} has no attribute {name!r}: here it is {here}; see {page}"


def own_names(this: object) -> Iterable[str]:
    """Lists the attributes for completion, without the names of other libraries. A class uses it as its ``__dir__``."""
    found: dict[str, object] = {}
    for base in reversed(type(this).__mro__):
        found |= vars(base)
    return [name for name in object.__dir__(this) if not isinstance(found.get(name), OtherName)]
