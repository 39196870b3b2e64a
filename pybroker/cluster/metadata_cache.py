"""The image from which this broker serves, and the only way to replace it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pybroker.cluster.metadata.image import NO_CONTROLLER, MetadataDelta, MetadataImage

Listener = Callable[[MetadataDelta, MetadataImage], Awaitable[None]]
Follower = Callable[[], object]


class MetadataCache:
    """Has ``image``, the metadata that clients see.

    A deleted topic disappears from the image before its logs lose their names. A new topic, and the new version of the
    image, appear only when the topic's partitions can be found. The listeners run in between. A *follower* starts work
    that must not begin before the new image is visible, for example a coordinator that looks up topics.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.is_in_touch = True
        """False after the session has expired: brokers and leaders may have changed, and no write is possible."""
        self._listeners: list[Listener] = []
        self._followers: list[Follower] = []
        self._waiting: dict[asyncio.Future[None], Callable[[MetadataImage], bool]] = {}

    @property
    def live_controller(self) -> int:
        """The controller that clients see; NO_CONTROLLER after the session has expired."""
        return self.image.live_controller if self.is_in_touch else NO_CONTROLLER

    def add_listener(self, listener: Listener) -> None:
        """Adds a listener: each change awaits ``listener(delta, new image)``, in the order in which they were added."""
        self._listeners.append(listener)

    def add_follower(self, follower: Follower) -> None:
        """Adds a follower: ``follower()`` is called after each change, when ``image`` is the new one."""
        self._followers.append(follower)

    async def publish(self, delta: MetadataDelta) -> None:
        """Applies ``delta`` here; returns when every listener has finished."""
        replaced = self.image.replaced(delta)
        if replaced:
            delta = replace(delta, missing={**delta.missing, **replaced})
        image = self.image.apply(delta)
        if delta.deleted or delta.missing:
            gone = MetadataDelta(deleted=delta.deleted, missing=delta.missing, version=self.image.version)
            self.image = self.image.apply(gone)
        try:
            for listener in self._listeners:
                await listener(delta, image)
        finally:
            self.image = image
            for follower in self._followers:
                follower()
            self._wake()

    async def until(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Waits until ``holds(image)`` returns True."""
        if holds(self.image):
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = holds
        try:
            await waiting
        finally:
            del self._waiting[waiting]

    def _wake(self) -> None:
        for waiting, holds in self._waiting.items():
            if not waiting.done() and holds(self.image):
                waiting.set_result(None)
