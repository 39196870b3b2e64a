"""Keeps a broker's image up to date with the journal.

A broker that is not the controller applies entry after entry, exactly as the controller did. It watches for the next
entry, reads all existing ones, and waits. If entries that it needs were already removed, for example after a long
pause, it reads the whole store again.

A store that has lost its contents has no journal. The broker reads such a store again after a pause that grows. It does
so at once when the next entry exists or the session is connected again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.cluster.nodes.loading import load_image, newest_version
from pybroker.store.interface import CoordinationError, CoordinationStore, SessionState

BATCH = 8
PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """The next entries, at most ``BATCH``. ``is_near`` is True if the entry before them still exists, which shows that
    none of them was removed.
    """

    entries: list[bytes]
    is_near: bool


async def entries_after(store: CoordinationStore, version: int) -> Found:
    """Returns the journal entries after ``version``."""
    paths = [znodes.journal_path(version + n) for n in range(BATCH + 1)]
    last, *nodes = await store.get_many(paths)
    found = []
    for node in nodes:
        if node is None:
            break
        found.append(node[0])
    return Found(found, last is not None)


async def is_behind(store: CoordinationStore, version: int) -> bool:
    """Returns whether the entry after ``version`` was already removed."""
    if await newest_version(store) <= version:
        return False
    return await store.exists(znodes.journal_path(version + 1)) is None


async def newest(store: CoordinationStore, image: MetadataImage) -> MetadataImage:
    """Returns the newest image in the store, starting from ``image`` if possible."""
    if image.version == 0:
        image = await load_image(store, image.cluster_id)
    while True:
        found = await entries_after(store, image.version)
        for data in found.entries:
            image = image.apply(journal.decode(data, image))
        if found.entries:
            continue
        if found.is_near or not await is_behind(store, image.version):
            return image
        image = await load_image(store, image.cluster_id)


class Following:
    """The task that follows the journal.

    ``version()`` is this broker's version, ``apply(version, data)`` applies an entry, ``reload()`` reads the whole
    store.
    """

    def __init__(
        self,
        store: CoordinationStore,
        version: Callable[[], int],
        apply: Callable[[int, bytes], Awaitable[None]],
        reload: Callable[[], Awaitable[None]],
        on_failure: Callable[[Exception], object],
    ) -> None:
        """``on_failure(error)`` is called if an entry cannot be applied; then following ends."""
        self._store = store
        self._on_failure = on_failure
        self._version = version
        self._apply = apply
        self._reload = reload
        self._wake = asyncio.Event()
        self._is_wanted = False
        self._failures = 0
        """How many attempts in a row to read the store have failed."""
        self._task: asyncio.Task[None] | None = None
        store.session.on_change(self._on_session)

    def start(self) -> None:
        """Starts, unless it runs already."""
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Stops, after the entry that is being applied."""
        self._is_wanted = False
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._wake.set()

    async def _run(self) -> None:
        while self._is_wanted:
            self._wake.clear()
            version = self._version()
            watch = self._store.watch(
                znodes.journal_path(version + 1), lambda path: self._wake.set()
            )
            try:
                await self._advance(version)
                self._failures = 0
                if self._version() == version:
                    await self._wake.wait()
            except CoordinationError as error:
                _log.info("could not follow the metadata, trying again: %s: %s", type(error).__name__, error)
                await self._pause()
            except Exception as error:
                self._on_failure(error)
                return
            finally:
                watch.cancel()

    async def _pause(self) -> None:
        """Waits after a failed attempt to read, longer each time. A new entry or a connection ends the wait."""
        pause_s = min(PAUSE_S * 2 ** min(self._failures, 10), LONGEST_PAUSE_S)
        self._failures += 1
        await asyncio.sleep(PAUSE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s - PAUSE_S):
                await self._wake.wait()

    async def _advance(self, version: int) -> None:
        found = await entries_after(self._store, version)
        if not found.entries and not found.is_near and await is_behind(self._store, version):
            await self._reload()
        for number, data in enumerate(found.entries, version + 1):
            if not self._is_wanted:
                return
            await self._apply(number, data)
