"""The security of a broker: TLS and SASL of its listeners, and the authorizer.

Unused features cost nothing, not even their import. ``pybroker.server`` opens this in steps: TLS with the coordination
store, SASL with the metadata.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import DEFAULT_BROKER, Configs, MetadataDelta, MetadataImage, ResourceType
from pybroker.cluster.nodes.loading import load_configs
from pybroker.config import BrokerConfig, listeners, rights, tls_slips
from pybroker.pools import Pools
from pybroker.store.interface import CoordinationStore

if TYPE_CHECKING:
    from pybroker.config.sasl_listeners import Remote
    from pybroker.security.authorizer import StandardAuthorizer
    from pybroker.security.file_watch import Watched
    from pybroker.security.sasl.authentication import Authentication
    from pybroker.security.sasl.broker_login import BrokerLogin
    from pybroker.security.sasl.key_fetcher import KeyFetcher
    from pybroker.security.sasl.listener_sasl import ListenerSasl
    from pybroker.security.sasl.oauth import Tokens
    from pybroker.security.tls.broker_tls import BrokerTls
    from pybroker.security.tls.listener_tls import ListenerTls
    from pybroker.security.tokens import KnownTokens


class Protection:
    """``authorizer`` is None if everybody may do everything, ``known_tokens`` is None without delegation tokens, and
    ``tls`` is None without TLS listeners. ``sasl`` has the SASL listeners by name. ``login`` logs this broker in at
    other brokers; it is None if the secret is enough for them.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, loop: AbstractEventLoop, pools: Pools) -> None:
        self.authorizer = _authorizer_of(config, clock)
        self.known_tokens = _known_tokens(config)
        self.tls: BrokerTls | None = None
        self.sasl: Mapping[str, ListenerSasl] = {}
        self.login: BrokerLogin | None = None
        self._key_fetchers: list[KeyFetcher] = []
        self._config = config
        self._clock = clock
        self._loop = loop
        self._pools = pools

    async def open_tls(self, store: CoordinationStore, node_id: int) -> None:
        """Opens the TLS of each TLS listener, with this broker's settings in the store. Raises ConfigError."""
        if any(endpoint.is_tls for endpoint in listeners(self._config)):
            own = str(node_id)
            stored = await load_configs(store, ResourceType.BROKER, (own, DEFAULT_BROKER))
            self._config.override(stored.get(own, {}), stored.get(DEFAULT_BROKER, {}))
            self.tls = await self._loop.run_in_executor(self._pools.changes, _tls_of, self._config)

    async def open_sasl(self, image: Callable[[], MetadataImage], secret: bytes, opened: AsyncExitStack) -> None:
        """Opens the SASL of each SASL listener; reads files. Raises ConfigError.

        ``image`` returns the metadata with the users. ``secret`` is the cluster's.
        """
        endpoints = listeners(self._config)
        if not any(endpoint.is_sasl for endpoint in endpoints):
            return
        from pybroker.config.sasl_listeners import between_by_kerberos
        from pybroker.security.sasl.listener_sasl import authenticated
        from pybroker.security.sasl.scram_server import Stored
        from pybroker.security.tokens import TokenLogins

        stored = Stored(
            lambda user: image().configs(ResourceType.USER, user), lambda: image().resource_configs
        )
        key = self._config["delegation.token.secret.key"]
        held = TokenLogins(key, lambda: image().tokens, self._clock.now_ms) if key else None
        self.sasl = await self._loop.run_in_executor(
            self._pools.changes, authenticated, self._config, endpoints, stored, secret, self._pools.logins, held
        )
        for each in self.sasl.values():
            if each.tokens is not None and each.tokens.source is not None:
                self._fetch_keys(each.tokens, each.tokens.source, opened)
        if between_by_kerberos(self._config):
            from pybroker.security.sasl.broker_login import broker_login

            pools = self._pools
            self.login = await self._loop.run_in_executor(
                pools.changes, broker_login, self._config, pools.broker_logins
            )

    def _fetch_keys(self, tokens: Tokens, source: Remote, opened: AsyncExitStack) -> None:
        from pybroker.security.sasl.key_fetcher import KeyFetcher

        fetcher = KeyFetcher(tokens, source, self._loop)
        opened.push_async_callback(fetcher.stop)
        self._key_fetchers.append(fetcher)

    async def keys_tried(self) -> None:
        """Waits until each fetcher has tried once to get the keys for tokens."""
        for fetcher in self._key_fetchers:
            await fetcher.tried()

    def peer_refusal(self, listener: str, sasl: Authentication | None, principal: str) -> str | None:
        """Returns why a client of ``listener`` cannot be a broker, even with the secret; None if it may prove it."""
        found = None if self.tls is None else self.tls.refusal(listener, principal)
        if found is None and self.login is not None:
            return self.login.refusal(listener, sasl, principal)
        return found

    @property
    def listeners_of_tls(self) -> Mapping[str, ListenerTls]:
        """The TLS of each TLS listener, by the listener's name."""
        return {} if self.tls is None else self.tls.listeners

    def watch_files(self, opened: AsyncExitStack) -> None:
        """Watches the files of certificates and keys for tokens, and reads them again when they change."""
        watched: list[Watched] = [*self.listeners_of_tls.values()]
        watched += [each.tokens for each in self.sasl.values() if each.tokens is not None and not each.tokens.source]
        if not watched:
            return
        from pybroker.security.file_watch import FileWatch

        watch = FileWatch(watched, self._loop, self._pools.upkeep)
        self._config.on_change(watch.on_change)
        watch.start()
        opened.push_async_callback(watch.stop)

    async def try_out(self, settings: Configs, common: Configs) -> None:
        """Raises ConfigError if this broker cannot use these TLS settings on top of the ``common`` ones."""
        tls_slips.check(self._config, settings)
        if self.tls is not None:
            wanted = self._config.overridden(settings, common)
            await self._loop.run_in_executor(self._pools.upkeep, self.tls.try_out, wanted)

    async def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies ACLs and tokens before the image is published. The first image, which has all of them, comes before
        the first client.
        """
        if self.authorizer is not None and delta.acls:
            self.authorizer.update(delta.acls)
        if self.known_tokens is not None and delta.tokens:
            self.known_tokens.update(delta.tokens)


def _authorizer_of(config: BrokerConfig, clock: Clock) -> StandardAuthorizer | None:
    """Returns the authorizer, if the configuration asks for one."""
    if not config[rights.AUTHORIZER]:
        return None
    from pybroker.security.audit import Audit
    from pybroker.security.authorizer import StandardAuthorizer

    audit = Audit(clock.monotonic_ms)
    return StandardAuthorizer(
        rights.super_users(config), allows_everyone=config[rights.ALLOW_EVERYONE], audit=audit
    )


def _known_tokens(config: BrokerConfig) -> KnownTokens | None:
    key = config["delegation.token.secret.key"]
    if not key:
        return None
    from pybroker.security.tokens import KnownTokens

    return KnownTokens(key)


def _tls_of(config: BrokerConfig) -> BrokerTls:
    from pybroker.security.tls.broker_tls import BrokerTls

    return BrokerTls(config)
