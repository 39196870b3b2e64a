"""The kinds of quotas, by Kafka's names, and the entities that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

DEFAULT: Final = ""
"""The name of the default entity."""


class Entity(NamedTuple):
    """An entity with a quota: a user, a client id, both, or an address. A field that is None matches any value."""

    user: str | None = None
    client: str | None = None
    ip: str | None = None


Quotas = Mapping[Entity, Mapping[str, float]]
"""All quotas: the bounds, by entity and key."""
