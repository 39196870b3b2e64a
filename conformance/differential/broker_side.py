"""One broker's side of a sequence: the names in use, the actors' state, the connections."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.protocol.wire_client import NO_UUID, Wire

#: Topics that all sequences share, with their partitions. One, two, three or four members get the same number each, so
#: the order in which a broker looks at them does not matter. ``own`` is made for a sequence, ``none`` is not there.
SHARED = {"a": 12, "b": 12}
OWN_PARTITIONS = 2
#: No actor of a sequence: what the harness asks on its own.
HARNESS = -1
STRANGER = uuid.UUID(int=0x5EED)
UNKNOWN_PRODUCER = 987_654_321


@dataclass
class Actor:
    """A client that acts as a member of a group, by either protocol, and as a producer. This broker assigned its ids.
    """

    number: int
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: list[str] = field(default_factory=list)
    consumer_id: str = ""
    epoch: int = 0
    assigned: list[dict[str, Any]] = field(default_factory=list)
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)


class World:
    """``connect`` connects an actor. ``prefix`` makes the names of a sequence its own. ``topic_ids`` knows the shared
    topics by their real names.
    """

    def __init__(self, connect: Callable[[int], Wire], prefix: str, topic_ids: dict[str, uuid.UUID]) -> None:
        self.connect = connect
        self.prefix = prefix
        self.topic_ids = dict(topic_ids)
        self.actors: dict[int, Actor] = {}
        self.names: dict[str, str] = {}
        self.producers: dict[int, str] = {}
        self.transactional_ids: set[str] = set()
        self._idle: dict[int, list[Wire]] = {}
        self._open: list[Wire] = []

    def actor(self, number: int) -> Actor:
        if number not in self.actors:
            self.actors[number] = Actor(number, consumer_id=f"{self.prefix}consumer-{number}")
        return self.actors[number]

    @property
    def group(self) -> str:
        return self.prefix + "group"

    def transactional_id(self, which: int) -> str:
        name = f"{self.prefix}txn-{which}"
        self.transactional_ids.add(name)
        return name

    def topic(self, which: str) -> str:
        """Returns the full name of a topic that a step calls ``a``, ``b``, ``own`` or ``none``."""
        return f"shared-{which}" if which in SHARED else self.prefix + which

    def topic_id(self, which: str) -> uuid.UUID:
        return self.topic_ids.get(self.topic(which), STRANGER)

    def topic_of(self, topic_id: uuid.UUID) -> str:
        """Returns the name of a topic id in a reply."""
        if topic_id == NO_UUID:
            return "no topic"
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "<stranger>")

    def name_member(self, member_id: str) -> str:
        """Returns the name of a member id in comparisons. Members are numbered in the order of their ids' arrival."""
        if not member_id or member_id.startswith(self.prefix):
            return member_id.removeprefix(self.prefix)
        return self.names.setdefault(member_id, f"<member {len(self.names)}>")

    def name_producer(self, producer_id: int) -> str:
        if producer_id < 0 or producer_id == UNKNOWN_PRODUCER:
            return str(producer_id)
        return self.producers.setdefault(producer_id, f"<producer {len(self.producers)}>")

    # Connections: a request that waits keeps its own; the actor goes on over another.

    def take(self, actor: int) -> Wire:
        """Returns a connection of the actor on which no reply is due."""
        idle = self._idle.setdefault(actor, [])
        if idle:
            return idle.pop()
        wire = self.connect(actor)
        self._open.append(wire)
        return wire

    def give_back(self, actor: int, wire: Wire) -> None:
        self._idle[actor].append(wire)

    def close(self) -> None:
        for wire in self._open:
            wire.close()
        self._open.clear()
        self._idle.clear()
