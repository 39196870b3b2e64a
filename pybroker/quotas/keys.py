"""The quotas that there are, by Kafka's names, and what they are set for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

DEFAULT: Final = ""
"""The name of all that have no quota of their own."""


class Entity(NamedTuple):
    """What a quota is set for: a user, a client id, both, or an address. None: this does not matter."""

    user: str | None = None
    client: str | None = None
    ip: str | None = None


Quotas = Mapping[Entity, Mapping[str, float]]
"""All that are set: the bound by entity and key."""
