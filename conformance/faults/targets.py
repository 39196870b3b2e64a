"""What a campaign's load needs of one broker or of several."""

from __future__ import annotations

from typing import Protocol

from conformance.drivers.base import Place


class Target(Protocol):
    """One broker or several. A load does not need to know which."""

    @property
    def bootstrap(self) -> str:
        """Returns ``host:port,…``."""

    def make_topic(self, name: str, partitions: int, **config: object) -> None:
        """Creates a topic with the target's number of replicas, and waits for leaders; settings have ``_`` for ``.``.
        """

    def leader_of(self, place: Place) -> tuple[str, int]:
        """Returns the address of the partition's leader."""
