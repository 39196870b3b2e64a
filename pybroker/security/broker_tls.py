"""TLS of a broker: of its listeners, and of its way to other brokers.

Brokers know each other by the secret of the cluster (``cluster.peer_secret``), which all can read who can read the
coordination store: of ZooKeeper everybody, unless ``zookeeper.set.acl`` is set. Where the listener for brokers is SSL
and asks for certificates, the secret does not suffice: a broker shows the certificate of this one's name, or of one in
``super.users``.
"""

from __future__ import annotations

import ssl

from pybroker.config import BrokerConfig, listeners, rights
from pybroker.config.listeners import between_brokers
from pybroker.security.listener_tls import ListenerTls


class BrokerTls:
    """``listeners``: those that speak TLS, by name; ``between``: the one for brokers, None where it is plain."""

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
        """Raises ConfigError where the listeners could not have the settings of ``config``. Reads files."""
        for each in self.listeners.values():
            each.try_out(config)

    def refusal(self, listener: str, principal: str) -> str | None:
        """Why a client that has come by ``listener`` is no broker; None where the secret decides."""
        between = self.between
        if between is None or between.context.verify_mode is not ssl.CERT_REQUIRED:
            return None
        if listener != between.listener:
            return f"brokers have to come by listener {between.listener}, which asks for certificates"
        if between.is_sasl:  # any certificate of the authority will do: its name is not that of the connection
            return None
        if principal == between.own_principal or principal in self._super_users:
            return None
        own = f"{between.own_principal}, which is the broker's own name"
        return f"{principal} is not {own}, and none of {rights.SUPER_USERS}"
