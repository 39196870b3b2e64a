"""What a load of a campaign needs of the broker, or of the brokers, that it is put on."""

from __future__ import annotations

from typing import Protocol

from conformance.drivers.base import Place


class Target(Protocol):
    """One broker, or several: the loads do not know which."""

    @property
    def bootstrap(self) -> str:
        """``host:port,…``"""

    def make_topic(self, name: str, partitions: int, **config: object) -> None:
        """Creates a topic with as many replicas as there are to be, and waits for leaders; settings have ``_`` for
        ``.``.
        """

    def leader_of(self, place: Place) -> tuple[str, int]:
        """The address of the partition's leader."""
