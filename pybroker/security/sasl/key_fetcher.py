"""Fetches the keys for tokens by HTTP, off the event loop, while the broker runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Final

from joserfc.jwk import KeySet

from pybroker.config.sasl_listeners import Remote
from pybroker.security.sasl.fetch_times import FetchTimes
from pybroker.security.sasl.oauth import Tokens, keys_of
from pyclient.protocol.threads import on_thread
from pyclient.security import http_call

_OPEN: Final = "http:"
TIMEOUT_S: Final = 10.0
"""The time limit for connecting, and the time limit for the answer."""

logger = logging.getLogger("pybroker.security")


class KeyFetcher:
    """Sets the keys of ``tokens`` from its source. If fetching fails, the old keys stay."""

    def __init__(self, tokens: Tokens, source: Remote, loop: asyncio.AbstractEventLoop) -> None:
        """Starts to fetch at once."""
        self._tokens = tokens
        self._source = source
        self._loop = loop
        self._times = FetchTimes(source, loop.time())
        self._asked = asyncio.Event()
        self._tried = asyncio.Event()
        tokens.on_unknown_key = self._on_unknown_key
        if source.url.startswith(_OPEN):
            text = "listener %s: an attacker on the way to %s can replace the keys, and so forge tokens: use https"
            logger.warning(text, tokens.listener, source.url)
        self._task = loop.create_task(self._run())

    async def tried(self) -> None:
        """Waits until the first attempt is over."""
        await self._tried.wait()

    def _on_unknown_key(self) -> None:
        if self._times.on_unknown_key(self._loop.time()):
            self._asked.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._times.due_s):
                    await self._asked.wait()
            self._asked.clear()
            await self._fetch()
            self._tried.set()

    async def _fetch(self) -> None:
        was_failing = self._times.is_failing
        try:
            keys = await on_thread(self._loop, "jwks", partial(fetch, self._source))
        except Exception as error:  # the next attempt follows anyway
            self._times.on_failed(self._loop.time())
            level = logging.DEBUG if was_failing else logging.ERROR
            listener, wait_s = self._tokens.listener, self._times.due_s - self._loop.time()
            text = "listener %s: could not fetch the keys for tokens from %s: %s; the next attempt is in %.3g s"
            logger.log(level, text, listener, self._source.url, error, wait_s)
        else:
            self._times.on_fetched(self._loop.time())
            if was_failing or self._tokens.keys is None:
                logger.info("listener %s has fetched the keys from %s", self._tokens.listener, self._source.url)
            self._tokens.keys = keys

    async def stop(self) -> None:
        """Stops fetching."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def fetch(source: Remote) -> KeySet:
    """Returns the current keys of the source; blocks. Raises OSError, ValueError."""
    url = http_call.parse(source.url)
    assert url is not None  # its settings were checked
    status, body = http_call.ask(url, {"Accept": "application/json"}, connect_s=TIMEOUT_S, read_s=TIMEOUT_S)
    if status != HTTPStatus.OK:
        raise OSError(f"it answers {status}")
    return keys_of(body)
