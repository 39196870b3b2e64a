"""What a classic group gets from its shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.shard import Event
from pybroker.coordinator.timer_wheel import TimerWheel


class GroupContext(NamedTuple):
    """Settings, timers and the world around a group. ``new_id`` makes the unique part of a member id. ``image`` is the
    cluster's current metadata. ``forsaken`` gets the id of a group whose first member has never come.
    """

    settings: GroupSettings
    timers: TimerWheel[Event]
    new_id: Callable[[], str]
    image: Callable[[], MetadataImage]
    forsaken: Callable[[str], object] = lambda group_id: None
