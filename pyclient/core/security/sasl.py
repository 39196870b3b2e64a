"""Authenticates a client by SASL, at the start of a connection and again before its session ends (KIP-368).

``pyclient.protocol.sasl`` has the messages of each mechanism, and ``credentials`` the client's credentials.
"""

from __future__ import annotations

import math
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from pyclient.config import Config
from pyclient.core.nodes.connection import Pending
from pyclient.core.nodes.transport import Transport
from pyclient.core.nodes.versions import Versions
from pyclient.core.security.credentials import Credentials, credentials
from pyclient.core.security.oauth import PHASE as TOKEN_PHASE
from pyclient.core.security.oauth import Tokens
from pyclient.errors import ConnectionFailed, ConnectionLost, SaslRefused, UnsupportedByBroker, of_code
from pyclient.protocol import SaslAuthenticate, SaslHandshake, scram
from pyclient.protocol.answers import answer_on
from pyclient.protocol.apis import Api
from pyclient.protocol.errors import IllegalSaslState, UnsupportedSaslMechanism
from pyclient.protocol.sasl import Away, Derive, SaslError, conduct, renewal_in, told
from pyclient.protocol.threads import on_thread
from pyclient.security.kerberos import KerberosError

PHASE: Final = "SASL authentication"
MOST_NAMED: Final = 10
"""An error names at most this many of a broker's mechanisms."""
LONGEST_S: Final = 86_400.0
"""The longest time after which a client authenticates again, if the broker limits sessions at all."""
_HANDSHAKE_VERSION: Final = 1
"""After a handshake of version 0 (brokers before 1.0), the exchange would not have Kafka's frames."""


class Sasl:
    """The authentication that all connections of a client share."""

    phase = PHASE
    token_phase = TOKEN_PHASE
    renewal_in = staticmethod(renewal_in)

    def __init__(self, given: Credentials, tokens: Tokens | None, protocol: str) -> None:
        self._given = given
        self.user = given.user
        self.tokens = tokens
        """The tokens of the mechanism; None if it uses none."""
        self._protocol = protocol
        self._salted: tuple[Derive, bytes] | None = None
        """The last salted password, which a broker asks for at each connection."""

    async def ready(self) -> None:
        """Makes sure that there is a token, if needed. Raises ConnectionFailed and SaslRefused."""
        if self.tokens is not None:
            await self.tokens.ready()

    async def authenticate(self, transport: Transport, versions: Versions, peer: str) -> float:
        """Authenticates the client. Returns the seconds until it must authenticate again; infinity means never. Raises
        SaslRefused, and other KafkaErrors if the connection has ended.
        """
        ask = partial(_ask, transport, peer)
        await self._choose(ask, versions, peer)
        version = versions.choose(SaslAuthenticate)
        lifetime_ms = 0

        async def say(message: bytes) -> bytes:
            nonlocal lifetime_ms
            response = await ask(SaslAuthenticate, SaslAuthenticate.Request(auth_bytes=message), version)
            self._check(response, peer)
            lifetime_ms = response.session_lifetime_ms
            return bytes(response.auth_bytes)

        try:
            await conduct(self._given.begin(peer.rpartition(":")[0]), say, self._work)
        except SaslError as error:
            raise SaslRefused(peer, PHASE, str(error), self._given.advice) from None
        except KerberosError as error:
            kind = SaslRefused if error.lasts else ConnectionFailed
            raise kind(peer, PHASE, str(error)) from None
        return min(lifetime_ms / 1000, LONGEST_S) if lifetime_ms > 0 else math.inf

    async def _choose(self, ask: Callable[..., Awaitable[Any]], versions: Versions, peer: str) -> None:
        """Agrees on the mechanism. Raises SaslRefused."""
        try:
            if versions.choose(SaslHandshake) < _HANDSHAKE_VERSION:
                raise SaslRefused(peer, PHASE, "the broker is older than Kafka 1.0")
        except UnsupportedByBroker as unserved:
            raise SaslRefused(peer, PHASE, unserved, self._without_sasl()) from unserved
        request = SaslHandshake.Request(mechanism=self._given.mechanism)
        response = await ask(SaslHandshake, request, _HANDSHAKE_VERSION)
        error = of_code(response.error_code)
        if isinstance(error, UnsupportedSaslMechanism):
            known = ", ".join(map(told, response.mechanisms[:MOST_NAMED])) or "none"
            error = UnsupportedSaslMechanism(f"the broker has no {self._given.mechanism}, but {known}")
            raise SaslRefused(peer, PHASE, error, "; set sasl.mechanism to one of the broker's")
        if isinstance(error, IllegalSaslState):
            raise SaslRefused(peer, PHASE, "this listener does not use SASL", self._without_sasl())
        if error is not None:
            raise SaslRefused(peer, PHASE, error)

    def _without_sasl(self) -> str:
        protocol = self._protocol.removeprefix("SASL_")
        return f"; set security.protocol={protocol}, or use one of its SASL listeners"

    def _check(self, response: SaslAuthenticate.Response, peer: str) -> None:
        error = of_code(response.error_code, told(response.error_message or "") or None)
        if error is not None:
            raise SaslRefused(peer, PHASE, error, self._given.advice)

    async def _work(self, step: Derive | Away) -> bytes:
        if isinstance(step, Derive):
            return await self._derived(step)
        return await on_thread(get_running_loop(), "sasl", step.run)

    async def _derived(self, step: Derive) -> bytes:
        """Returns the salted password. Brokers of a cluster use the same salt, so the last one is cached."""
        if self._salted is None or self._salted[0] != step:
            password = self._given.password
            work = partial(scram.salted_password, step.mechanism, password, step.salt, step.iterations)
            self._salted = step, await on_thread(get_running_loop(), "scram", work)
        return self._salted[1]

    def failure(self) -> str:
        """Returns advice for a connection that ended before the broker's answer."""
        return f"; the broker's log has the reason{self._given.advice}"

    def close(self) -> None:
        """Ends the background work of the mechanism."""
        if self.tokens is not None:
            self.tokens.close()


async def _ask(transport: Transport, peer: str, api: Api, message: Any, version: int) -> Any:
    if transport.is_closed:
        raise ConnectionLost(peer, api.name, "closed by the broker")
    answer, on_done = answer_on(get_running_loop())
    transport.send(Pending(api, message, on_done, math.inf, None), version)
    return await answer


def sasl(config: Config, random: Callable[[], float]) -> Sasl:
    """Returns the SASL side of a client from the keys sasl.*. Raises ConfigError."""
    given, tokens = credentials(config, random)
    return Sasl(given, tokens, config.security_protocol)
