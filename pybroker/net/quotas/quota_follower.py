"""Applies the quotas of the metadata to a server, including its open connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import Configs, MetadataImage, ResourceType
from pybroker.config import BrokerConfig, listeners
from pybroker.config.keys.key import MAX_INT
from pybroker.config.listeners import protected

if TYPE_CHECKING:  # a broker without quotas saves these imports
    from pybroker.net.server import SocketServer
    from pybroker.quotas.client_quotas import ClientQuotas
    from pybroker.quotas.keys import Quotas
    from pybroker.quotas.rate import Windows

RATE: Final = "max.connection.creation.rate"
KINDS: Final = frozenset({ResourceType.USER, ResourceType.CLIENT, ResourceType.USER_CLIENT, ResourceType.IP})


class QuotaFollower:
    """Applies quotas to a server. Its owner calls ``follow`` after each change of the metadata."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        net: SocketServer,
        on_change: Callable[[ClientQuotas | None], None],
    ) -> None:
        """``on_change`` is called with the quotas of clients, None if there are none."""
        self._config = config
        self._clock = clock
        self._loop = loop
        self._net = net
        self._on_change = on_change
        self._seen: Mapping[tuple[ResourceType, str], Configs] = {}
        self._found: Quotas = {}
        self._of_clients: ClientQuotas | None = None
        self._limit_arrivals()

    def follow(self, image: MetadataImage) -> None:
        """Applies the quotas of ``image``."""
        configs, before = image.resource_configs, self._seen
        if configs is before:
            return
        self._seen = configs
        if not self._found and not any(kind in KINDS for kind, _ in configs):
            return
        from pybroker.cluster.decisions.quota_changes import quotas

        found = quotas(image)
        if found != self._found:
            self._found = found
            self._apply(found)
            self._limit_arrivals()

    def on_config_change(self, names: Iterable[str]) -> None:
        """Applies changed connection rates, which are dynamic settings."""
        if any(name.endswith(RATE) for name in names):
            self._limit_arrivals()

    def _limit_arrivals(self) -> None:
        config, net = self._config, self._net
        broker = config[RATE] if config[RATE] < MAX_INT else None
        rates = {each.listener: config.of_listener(each.listener, RATE) for each in listeners(config)}
        own = {name: rate for name, rate in rates.items() if config.has_own(name, RATE)}
        if net.arrivals is None and broker is None and not own and not any(each.ip is not None for each in self._found):
            return
        from pybroker.net.quotas.arrival_limits import ArrivalLimits
        from pybroker.quotas.arrivals import Arrivals

        if net.arrivals is None:
            clock = self._clock.monotonic_ms
            net.arrivals = ArrivalLimits(Arrivals(windows_of(config, "quota")), self._loop, clock, protected(config))
        net.arrivals.rates.update(broker, own, self._found)
        if not net.arrivals.rates.is_limited:
            net.arrivals.close()
            net.arrivals = None

    def _apply(self, found: Quotas) -> None:
        from pybroker.net.quotas.throttling import Throttling
        from pybroker.quotas.client_quotas import ClientQuotas, has_client_quotas

        if not has_client_quotas(found):
            if self._of_clients is not None:
                self._of_clients.update({})
                self._of_clients = None
            self._net.throttle(None)
        else:
            if self._of_clients is None:
                of_controller = windows_of(self._config, "controller.quota")
                self._of_clients = ClientQuotas(windows_of(self._config, "quota"), of_controller)
            self._of_clients.update(found)
            throttling = self._net.throttling
            if throttling is None:
                throttling = Throttling(self._of_clients, self._loop)
            self._net.throttle(throttling)
        self._on_change(self._of_clients)


def windows_of(config: BrokerConfig, prefix: str) -> Windows:
    """Returns ``<prefix>.window.num`` and ``<prefix>.window.size.seconds``."""
    from pybroker.quotas.rate import Windows

    return Windows(config[f"{prefix}.window.num"], config[f"{prefix}.window.size.seconds"] * 1000)
