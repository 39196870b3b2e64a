"""One verb: how a step becomes a request, and what an actor remembers of the reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.differential.broker_side import Actor, World
from conformance.differential.step import Step

Fields = dict[str, Any]
Build = Callable[[World, Actor, Step], Fields]
Learn = Callable[[World, Actor, Step, Any], None]


def nothing(world: World, actor: Actor, step: Step, reply: Any) -> None:
    """Learns nothing from the reply."""


@dataclass(frozen=True, slots=True)
class Verb:
    """``versions``: least and greatest of Kafka 4.4.0."""

    api: str
    versions: tuple[int, int]
    build: Build
    learn: Learn = nothing
