"""Lets listeners read their files again when these change: key stores, trust stores, and the keys that sign tokens.

It checks every ``LOOK_S`` seconds, and when a key of the configuration changes. It reads files on a thread, not on the
loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from concurrent.futures import Executor
from contextlib import suppress
from typing import Protocol

from pybroker.config.keys.tls_keys import LISTENER_PREFIX

LOOK_S = 5.0

logger = logging.getLogger("pybroker.security")


class Watched(Protocol):
    """An object of a listener that has read files."""

    listener: str
    """The name of the listener."""

    def refresh(self) -> None:
        """Reads the files again that have changed."""


class FileWatch:
    """Refreshes everything watched, regularly and when keys change."""

    def __init__(self, watched: Collection[Watched], loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        self._watched = watched
        self._loop = loop
        self._pool = pool
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts, and checks at once, because the files may have changed since the broker read them."""
        self._asked.set()
        self._task = self._loop.create_task(self._run())

    def on_change(self, names: Collection[str]) -> None:
        """Checks now if keys of TLS have changed."""
        if any(name.startswith(("ssl.", LISTENER_PREFIX)) for name in names):
            self._asked.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
            self._asked.clear()
            await self._loop.run_in_executor(self._pool, self._refresh)

    def _refresh(self) -> None:
        for each in self._watched:
            try:
                each.refresh()
            except Exception:  # the next check follows anyway
                logger.exception("listener %s could not reload its files, and keeps the old ones", each.listener)

    async def stop(self) -> None:
        """Stops."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
