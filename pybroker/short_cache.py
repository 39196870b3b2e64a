"""Caches results by texts that clients choose. It caches only short texts, because long ones would fill memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

LONGEST: Final = 600
"""The longest text whose result is cached: two usual names fit into it."""

F = TypeVar("F", bound=Callable[..., Any])


def cached_if_short(most: int) -> Callable[[F], F]:
    """Caches the last ``most`` results of a function whose first argument is a text or bytes."""

    def decorate(function: F) -> F:
        cached = lru_cache(most)(function)

        @wraps(function)
        def call(text: str | bytes, *rest: Any) -> Any:
            return (cached if len(text) <= LONGEST else function)(text, *rest)

        return cast(F, call)

    return decorate
