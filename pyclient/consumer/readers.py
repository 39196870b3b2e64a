"""Deserializers, which run when the application reads a record's key or value."""

from __future__ import annotations

from functools import partial
from typing import Any

from cy.consume.value_reader import Reader
from pyclient.arguments import takes_topic
from pyclient.consumer.errors import DeserializationError
from pyclient.serialization import named_deserializer


def reader(given: Any, part: str) -> Reader | None:
    """Returns the reader for ``key.deserializer`` or ``value.deserializer`` (``part``: ``key`` or ``value``). None
    means that the application wants bytes. Raises ConfigError.
    """
    what = f"{part}.deserializer"
    function = named_deserializer(given, what)
    if function is None:
        return None
    return Reader(function, takes_topic(function, what), partial(DeserializationError, part))
