"""Settings of consumer groups; a group's own configuration (ConfigResource GROUP) overrides the broker's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pybroker.cluster.metadata.image import MetadataImage, ResourceType
from pybroker.config import BrokerConfig
from pybroker.config.group_config import group_config


class Pace(NamedTuple):
    """The times of one group, in milliseconds."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Limits and policies; the defaults are Kafka's. The first of ``assignors`` is the default one."""

    max_size: int = (1 << 31) - 1
    classic_max_size: int = (1 << 31) - 1
    may_upgrade: bool = True
    may_downgrade: bool = True
    regex_refresh_interval_ms: int = 600_000
    assignors: tuple[str, ...] = ("uniform", "range")

    @property
    def may_migrate(self) -> bool:
        """True if a group may have members of both protocols."""
        return self.may_upgrade or self.may_downgrade

    @classmethod
    def from_config(cls, config: BrokerConfig) -> ConsumerSettings:
        """Reads the settings of a broker."""
        policy = config["group.consumer.migration.policy"].lower()
        return cls(
            max_size=config["group.consumer.max.size"],
            classic_max_size=config["group.max.size"],
            may_upgrade=policy in ("upgrade", "bidirectional"),
            may_downgrade=policy in ("downgrade", "bidirectional"),
            regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
            assignors=tuple(dict.fromkeys(map(_assignor, config["group.consumer.assignors"]))),
        )


def _assignor(name: str) -> str:
    """Returns the short name of an assignor, which may be given as the name of Kafka's class."""
    return name.rpartition(".")[2].removesuffix("Assignor").lower()


PaceOf = Callable[[str], Pace]
"""Returns the times of the group with that id."""


class Paces:
    """The times of each group; read again when the metadata image changes."""

    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image
        self._version = -1
        self._found: dict[str, Pace] = {}
        config.on_change(lambda names: self._found.clear())

    def __call__(self, group_id: str) -> Pace:
        """Returns the times of a group."""
        image = self._image()
        if image.version != self._version:
            self._version = image.version
            self._found.clear()
        pace = self._found.get(group_id)
        if pace is None:
            pace = self._found[group_id] = self._read(image, group_id)
        return pace

    def _read(self, image: MetadataImage, group_id: str) -> Pace:
        overrides = image.configs(ResourceType.GROUP, group_id)
        session, heartbeat, assignment = (
            group_config(self._config, overrides, f"consumer.{name}")
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        )
        assert isinstance(session, int)
        assert isinstance(heartbeat, int)
        assert isinstance(assignment, int)
        return Pace(session, heartbeat, assignment)
