"""Looks from time to time whether the files of the listeners' certificates, or of keys, have changed, off the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from concurrent.futures import Executor
from contextlib import suppress
from typing import Protocol

from pybroker.config.tls_keys import LISTENER_PREFIX

LOOK_S = 5.0

logger = logging.getLogger("pybroker.security")


class Watched(Protocol):
    """What has read files."""

    listener: str

    def refresh(self) -> None:
        """Reads them again where they have changed."""


class CertificateWatch:
    """Has the listeners, or what checks tokens, read their files again when a file or a key has changed."""

    def __init__(self, listeners: Collection[Watched], loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        self._listeners = listeners
        self._loop = loop
        self._pool = pool
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look, at once: since the broker has read its settings they may have changed."""
        self._asked.set()
        self._task = self._loop.create_task(self._run())

    def on_change(self, names: Collection[str]) -> None:
        """Keys of the broker have new values."""
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
        for listener in self._listeners:
            try:
                listener.refresh()
            except Exception:  # the next look comes all the same
                logger.exception("listener %s keeps its files as they were", listener.listener)

    async def stop(self) -> None:
        """Looks no longer."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
