"""Finds out from a function's signature, once, how to call it.

A serializer takes only the value, as in kafka-python and aiokafka, or topic and value, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Final

from pyclient.errors import ConfigError

POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)

STARS: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def takes_topic(function: Callable[..., Any], what: str) -> bool:
    """Returns True if a (de)serializer is called with (topic, value), False if with the value alone.

    A function with one required argument gets the value, one with two gets both. A function without a required argument
    gets both if its first argument is named ``topic`` or if it takes ``*args``. ``what`` names the function in errors.
    Raises ConfigError if it fits neither form, or if its signature is unknown.
    """
    if isinstance(function, type) and any("__call__" in base.__dict__ for base in function.__mro__):
        raise _misfit(function, what, "is a class: pass an instance of it")
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        if isinstance(function, type):  # int, str
            return False
        raise _misfit(function, what, "has no signature that shows its arguments") from None
    positional = [each for each in parameters if each.kind in POSITIONAL]
    needed = [each.name for each in parameters if each.default is Parameter.empty and each.kind not in STARS]
    may_have_two = len(positional) > 1 or any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    if len(needed) > 2 or not (positional or may_have_two) or any(name not in _names(positional) for name in needed):
        raise _misfit(function, what, f"takes {signature(function)}")
    if len(needed) == 2 and needed[1] in ("topic", "ctx", "context"):
        raise _misfit(function, what, f"takes ({needed[0]}, {needed[1]})")
    begins_with_topic = not positional or positional[0].name == "topic"
    return (may_have_two and begins_with_topic and needed in ([], ["topic"])) or len(needed) == 2


def _names(parameters: list[Parameter]) -> set[str]:
    return {each.name for each in parameters}


def _misfit(function: Callable[..., Any], what: str, why: str) -> ConfigError:
    name = getattr(function, "__qualname__", None) or repr(function)
    return ConfigError(f"{what}: {name} {why}; it is called with (value) or (topic, value): pass lambda value: …")
