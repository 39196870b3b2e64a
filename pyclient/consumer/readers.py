"""Deserializers as a consumer calls them: when a record is asked for its key or its value."""

from __future__ import annotations

from functools import partial
from typing import Any

from cy.consume.value_reader import Reader
from pyclient.arguments import takes_topic
from pyclient.consumer.errors import DeserializationError
from pyclient.serialization import named_deserializer


def reader(given: Any, part: str) -> Reader | None:
    """Of what the key ``key.deserializer`` or ``value.deserializer`` names (``part``: ``key`` or ``value``); None: the
    bytes are what the application wants. Raises ConfigError.
    """
    what = f"{part}.deserializer"
    function = named_deserializer(given, what)
    if function is None:
        return None
    return Reader(function, takes_topic(function, what), partial(DeserializationError, part))
