"""TLS of a broker: for its listeners, and for its connections to other brokers.

Brokers recognise each other by the secret of the cluster (``cluster.peer_secret``). Everybody who can read the
coordination store can read it: with ZooKeeper that is everybody, unless ``zookeeper.set.acl`` is set. If the listener
for brokers is SSL and requires certificates, the secret is not enough. A broker must then have a certificate with this
broker's own name, or with a name in ``super.users``.
"""

from __future__ import annotations

import ssl

from pybroker.config import BrokerConfig, listeners, rights
from pybroker.config.listeners import between_brokers
from pybroker.security.tls.listener_tls import ListenerTls


class BrokerTls:
    """``listeners`` has the TLS listeners by name. ``between`` is the one for brokers, None if that has no TLS."""

    def __init__(self, config: BrokerConfig) -> None:
        """Reads files. Raises ConfigError."""
        between = between_brokers(config)
        self.listeners = {
            each.listener: ListenerTls(config, each.listener, is_for_brokers=each == between, is_sasl=each.is_sasl)
            for each in listeners(config)
            if each.is_tls
        }
        self.between = None if between is None else self.listeners.get(between.listener)
        self._super_users = rights.super_users(config)

    def try_out(self, config: BrokerConfig) -> None:
        """Raises ConfigError if the listeners could not use the settings of ``config``. Reads files."""
        for each in self.listeners.values():
            each.try_out(config)

    def refusal(self, listener: str, principal: str) -> str | None:
        """Returns why a client of ``listener`` cannot be a broker; None if it may prove it by the secret."""
        between = self.between
        if between is None or between.context.verify_mode is not ssl.CERT_REQUIRED:
            return None
        if listener != between.listener:
            return f"brokers must use the listener {between.listener}, which requires certificates"
        if between.is_sasl:  # any certificate of the authority is accepted: the principal does not come from TLS
            return None
        if principal == between.own_principal or principal in self._super_users:
            return None
        own = f"{between.own_principal}, which is the broker's own name"
        return f"{principal} is not {own}, and none of {rights.SUPER_USERS}"
