"""What a shard provides to its consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.config.log_config import LogConfig
from pybroker.coordinator.group.consumer.settings import ConsumerSettings, Pace, PaceOf
from pybroker.coordinator.group.consumer.subscriptions.topics import Topics
from pybroker.coordinator.group.consumer.timeouts import Timeouts
from pybroker.coordinator.shard import Event, Result
from pybroker.coordinator.timer_wheel import TimerWheel

if TYPE_CHECKING:
    from pybroker.coordinator.group.classic import ClassicGroup
    from pybroker.coordinator.group.group import Group


PutOut = Callable[[str, str, int | None, str, Result], None]
"""``put_out(group id, member id, epoch, why, result)`` evicts the member if it still exists and is in that epoch (None:
in any epoch).
"""


class ConsumerFacts(NamedTuple):
    """What all shards of a broker share."""

    settings: ConsumerSettings
    pace_of: PaceOf
    topics: Topics
    largest_batch: Callable[[], int] = lambda: LogConfig().max_message_bytes
    """Returns how many bytes the records of an event may have together."""

    @classmethod
    def default(cls, image: Callable[[], MetadataImage]) -> ConsumerFacts:
        """Returns facts with Kafka's defaults for every group."""
        pace = Pace()
        return cls(ConsumerSettings(), lambda group_id: pace, Topics(image))


class ConsumerContext:
    """What the consumer groups of one shard share.

    ``groups`` are all groups of the shard. ``new_id`` returns a new member id. ``new_classic`` returns a new classic
    group that is not part of the shard yet. ``put_out`` evicts late members.
    """

    def __init__(
        self,
        facts: ConsumerFacts,
        groups: Mapping[str, Group],
        timers: TimerWheel[Event],
        new_id: Callable[[], str],
        new_classic: Callable[[str], ClassicGroup],
        put_out: PutOut,
    ) -> None:
        self.settings, self.pace_of, self.topics, self.largest_batch = facts
        self.groups = groups
        self.new_id = new_id
        self.new_classic = new_classic
        self.put_out = put_out
        self.timeouts = Timeouts(timers)
        self.resolving: set[str] = set()
        """The ids of groups whose regular expressions are being resolved."""
        self.resolved_at: dict[str, int] = {}
        """The metadata version in which this broker last resolved a group's expressions."""
        self.downgraded: dict[str, ClassicGroup] = {}
        """Classic groups that replace a consumer group when their record is replayed."""
