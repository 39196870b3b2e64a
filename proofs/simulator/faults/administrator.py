"""Administrators delete a topic, create it again, add partitions and configure it, while clients write to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofs.simulator.faults.surroundings import Surroundings
from pybroker.cluster.decisions.config_changes import ConfigChange, ConfigOperation, KeyChange
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.metadata.image import ResourceType, TopicImage

DOOMED = "d"
MOST_PARTITIONS = 2
CHANGES = (
    ("min.insync.replicas", "1"),
    ("min.insync.replicas", "2"),
    ("retention.ms", "400"),
    ("retention.ms", "-1"),
    ("retention.bytes", "1500"),
    ("retention.bytes", "-1"),
)
CONFIGS = (("min.insync.replicas", "2"), ("segment.bytes", "1024"))
"""The settings of the topic when it is created. Retention removes whole segments, so segments are small."""
PAUSE_S = 0.5


class Administrator:
    """Draws the administrator's next change."""

    def __init__(self, faults: Surroundings) -> None:
        self.faults = faults
        self.cluster = faults.cluster
        self.rng = faults.rng
        self._asked = 0.0
        self.kinds: dict[str, Callable[[], None]] = {
            "delete topic": self._delete,
            "grow topic": self._grow,
            "configure topic": self._configure,
        }

    def mend(self) -> None:
        """Creates the topic and its missing partitions at the end."""
        now = self.cluster.scheduler.now
        if now - self._asked > PAUSE_S:
            self._asked, topic = now, self._topic()
            if topic is None:
                self._make()
            elif len(topic.partitions) < MOST_PARTITIONS:
                self._grow()

    def _topic(self) -> TopicImage | None:
        """Returns the topic in the controller's metadata."""
        for broker in self.cluster.brokers():
            if broker.controller.is_controller:
                found: TopicImage | None = broker.metadata.image.topic(DOOMED)
                return found
        return None

    def _ask(self, text: str, ask: Callable[[Any], Any]) -> None:
        self.cluster.note(text)
        self.faults.ask_controller(ask)

    def _make(self) -> None:
        topic = NewTopic(DOOMED, 1, min(3, len(self.cluster.machines)), configs=CONFIGS)
        self._ask(f"make {DOOMED}", lambda controller: controller.create_topics([topic]))

    def _delete(self) -> None:
        self._ask(f"delete {DOOMED}", lambda controller: controller.delete_topics([TopicName(DOOMED)]))
        for _ in range(3):  # somebody creates it again: perhaps before the deletion, perhaps because a request was lost
            self.faults.later(self._make, 0.05)

    def _grow(self) -> None:
        grown = NewPartitions(DOOMED, MOST_PARTITIONS)
        self._ask(f"grow {DOOMED}", lambda controller: controller.create_partitions([grown]))

    def _configure(self) -> None:
        name, value = self.rng.choice(CHANGES)
        key = KeyChange(name, ConfigOperation.SET, value)
        change = ConfigChange(ResourceType.TOPIC, DOOMED, (key,))
        self._ask(f"{name}={value} of {DOOMED}", lambda controller: controller.alter_configs([change]))
