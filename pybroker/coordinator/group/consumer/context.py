"""What consumer groups get from their shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group.consumer.settings import ConsumerSettings, Pace, PaceOf
from pybroker.coordinator.group.consumer.timeouts import Timeouts
from pybroker.coordinator.group.consumer.topics import Topics
from pybroker.coordinator.shard import Event, Result
from pybroker.coordinator.timer_wheel import TimerWheel

if TYPE_CHECKING:
    from pybroker.coordinator.group.classic import ClassicGroup
    from pybroker.coordinator.group.group import Group


PutOut = Callable[[str, str, int | None, str, Result], None]
"""``put_out(group id, member id, epoch, why, result)``: evicts the member, if it is still there and, unless that is
None, in that epoch.
"""


class ConsumerFacts(NamedTuple):
    """What all shards of a broker share."""

    settings: ConsumerSettings
    pace_of: PaceOf
    topics: Topics

    @classmethod
    def default(cls, image: Callable[[], MetadataImage]) -> ConsumerFacts:
        """The facts of a broker where every group has Kafka's defaults."""
        pace = Pace()
        return cls(ConsumerSettings(), lambda group_id: pace, Topics(image))


class ConsumerContext:
    """Shared by the consumer groups of one shard.

    ``groups`` are all groups of the shard; ``new_id`` makes the id of a member; ``new_classic``
    makes a classic group that is not yet the shard's. ``put_out`` handles members that are late.
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
        self.settings, self.pace_of, self.topics = facts
        self.groups = groups
        self.new_id = new_id
        self.new_classic = new_classic
        self.put_out = put_out
        self.timeouts = Timeouts(timers)
        self.resolving: set[str] = set()
        """Ids of groups whose regular expressions are being looked up."""
        self.resolved_at: dict[str, int] = {}
        """Version of the metadata in which a group's expressions were last looked up by us."""
        self.downgraded: dict[str, ClassicGroup] = {}
        """Classic groups that take the place of a consumer group once their record is written."""
