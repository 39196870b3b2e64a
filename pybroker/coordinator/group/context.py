"""What a shard provides to a classic group."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.shard import Event
from pybroker.coordinator.timer_wheel import TimerWheel


class GroupContext(NamedTuple):
    """Settings, timers and surroundings of a group. ``new_id`` returns the unique part of a member id, ``image`` the
    current metadata. ``forsaken`` is called with the id of a group whose first member never joined. ``reserved`` has
    the member ids that clients got and have not used yet, the oldest first. Each has a function that drops it.
    """

    settings: GroupSettings
    timers: TimerWheel[Event]
    new_id: Callable[[], str]
    image: Callable[[], MetadataImage]
    forsaken: Callable[[str], object]
    reserved: dict[str, Callable[[int], None]]
