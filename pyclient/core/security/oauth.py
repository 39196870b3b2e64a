"""Tokens for OAUTHBEARER: fetched once for all connections, and again in the background before they expire."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, NamedTuple

from pyclient.core.backoff import Backoff
from pyclient.errors import ConnectionFailed, SaslRefused
from pyclient.protocol.threads import on_thread

LOG: Final = logging.getLogger("pyclient")
PHASE: Final = "SASL token"
PROVIDER: Final = "sasl.oauth.token.provider"
_LONGEST_S: Final = 86_400.0


class Refused(ValueError):
    """There is no token, and another attempt will not help. The text contains no secret."""


@dataclass(frozen=True)
class Token:
    """A token. ``expires`` is in seconds since 1970; None if unknown."""

    value: str = field(repr=False)
    expires: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class Window(NamedTuple):
    """When to fetch the next token: the keys sasl.login.refresh.*."""

    factor: float
    jitter: float
    least: float
    buffer: float

    def refresh_in(self, lifetime: float, random: Callable[[], float]) -> float:
        """Returns the seconds after which to fetch the next token, if this one lives for ``lifetime`` seconds."""
        at = lifetime * (self.factor + self.jitter * random())
        if self.least + self.buffer < lifetime:
            at = max(self.least, min(at, lifetime - self.buffer))
        return min(at, _LONGEST_S)


Fetch = Callable[[], Awaitable[Token]]


class Tokens:
    """The tokens of one client. ``name`` is their source, for errors and log lines."""

    def __init__(
        self,
        name: str,
        fetch: Fetch,
        window: Window,
        backoff: Backoff,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._window = window
        self._backoff = backoff
        self._clock = clock
        self._token: Token | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._trouble: ConnectionFailed | None = None
        self._retry_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def token(self) -> Token:
        """The token that ``ready`` has fetched."""
        assert self._token is not None
        return self._token

    async def ready(self) -> None:
        """Waits for a token that has not expired. Raises ConnectionFailed and SaslRefused."""
        if self._token is not None and (self._token.expires or 0.0) > self._clock():
            return
        if self._trouble is not None and asyncio.get_running_loop().time() < self._retry_at:
            raise self._trouble
        await asyncio.shield(self._begin())
        if self._trouble is not None:
            raise self._trouble

    def _begin(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._renew())
        return self._fetching

    async def _renew(self) -> None:
        """Fetches a token. If that fails, ``_trouble`` is the reason."""
        loop = asyncio.get_running_loop()
        try:
            self._token = await self._fetch()
            self._trouble = None
            self._backoff.reset()
            self._refresh_later(loop)
        except Exception as error:
            kind = ConnectionFailed if isinstance(error, OSError) else SaslRefused
            self._trouble = kind(self._name, PHASE, error)
            self._trouble.__cause__ = error
            wait = self._backoff.next()
            self._retry_at = loop.time() + wait
            if self._token is not None and (self._token.expires or 0.0) > self._clock():
                LOG.warning("%s; the current token is still valid for some time", self._trouble)
                self._later(loop, wait)
        finally:
            self._fetching = None

    def _refresh_later(self, loop: asyncio.AbstractEventLoop) -> None:
        expires = self.token.expires
        if expires is not None and (left := expires - self._clock()) > 0:
            self._later(loop, self._window.refresh_in(left, self._backoff.random))

    def _later(self, loop: asyncio.AbstractEventLoop, wait: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._timer = loop.call_later(wait, self._begin)

    def close(self) -> None:
        """Ends the background work: no token is fetched any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()


def by_provider(provider: Any) -> Fetch:
    """Returns a fetch that calls the application's function, or the method ``token`` of its object."""
    ask = getattr(provider, "token", provider)
    more = getattr(provider, "extensions", None)

    async def fetch() -> Token:
        found = await _called(ask)
        value, expires = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not isinstance(value, str) or not isinstance(expires, int | float | None):
            raise Refused("it must return a token, or a token and its expiry in seconds since 1970")
        extensions = dict(await _called(more)) if callable(more) else {}
        return Token(value, expiry_of(value) if expires is None else expires, extensions)

    return fetch


async def _called(function: Callable[[], Any]) -> Any:
    """Returns the result of the application's function. An ``async`` one runs on the loop, any other on a thread."""
    if iscoroutinefunction(function):
        return await function()
    found = await on_thread(asyncio.get_running_loop(), "oauth-token", function)
    return await found if isawaitable(found) else found


def on_own_thread(work: Callable[[], Token], extensions: Mapping[str, str]) -> Fetch:
    """Returns a fetch that runs a blocking call on its own thread."""

    async def fetch() -> Token:
        found = await on_thread(asyncio.get_running_loop(), "oauth-token", work)
        return Token(found.value, found.expires, extensions)

    return fetch


def expiry_of(value: str) -> float | None:
    """Returns when a token expires, in seconds since 1970. Returns None unless the token is a JWT with an expiry."""
    try:
        _, body, _ = value.split(".")
        exp = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return float(exp) if isinstance(exp, int | float) and math.isfinite(exp) else None


def unsecured(claims: Mapping[str, object]) -> str:
    """Returns an unsigned token (``alg`` none), which Kafka accepts for development."""
    parts = ({"alg": "none"}, claims)
    rows = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    return ".".join([*rows, ""])
