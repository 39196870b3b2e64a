"""Gives inherited methods the name of the public class, which Python shows in its errors about arguments."""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final, TypeVar

K = TypeVar("K", bound=type)

OURS: Final = __name__.split(".")[0]


def public(kind: K) -> K:
    """Renames the methods that the class inherits from bases of this package: ``Consumer.seek``, not
    ``ConsumerApi.seek``. ``pickle`` finds them by the new names. Use it as a class decorator.
    """
    for base in kind.__mro__[1:]:
        if base.__module__.split(".")[0] == OURS:
            for name, member in vars(base).items():
                while isinstance(member, FunctionType):
                    member.__module__, member.__qualname__ = kind.__module__, f"{kind.__name__}.{name}"
                    member = _wrapped(member)
    return kind


def _wrapped(function: FunctionType) -> Any:
    """Returns the function that a decorator has wrapped, or None."""
    return getattr(function, "__wrapped__", None)
