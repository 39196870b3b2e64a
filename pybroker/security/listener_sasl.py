"""SASL of the listeners, as the configuration says: what each new connection begins with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybroker.config import BrokerConfig, Endpoint
from pybroker.config.sasl_listeners import PLAIN, read
from pybroker.security.authentication import Authentication, Mechanism
from pybroker.security.plain import Plain
from pybroker.security.scram_server import ScramUsers, Stored
from pyclient.protocol import scram


class ListenerSasl:
    """SASL of one listener."""

    def __init__(self, config: BrokerConfig, listener: str, stored: Stored, secret: bytes) -> None:
        """``secret``: as of ``ScramUsers``. Raises ConfigError."""
        settings = read(config, listener)
        self.listener = listener
        self._max_reauth_ms = settings.mechanisms
        self._mechanisms: Mapping[str, Mechanism] = {
            name: Plain(settings.passwords) if name == PLAIN else ScramUsers(scram.MECHANISMS[name], stored, secret)
            for name in settings.mechanisms
        }

    def begin(self) -> Authentication:
        """For a new connection."""
        return Authentication(self.listener, self._mechanisms, self._max_reauth_ms)


def authenticated(
    config: BrokerConfig, endpoints: Iterable[Endpoint], stored: Stored, secret: bytes
) -> Mapping[str, ListenerSasl]:
    """SASL of those listeners that speak it, by name. Raises ConfigError."""
    return {each.listener: ListenerSasl(config, each.listener, stored, secret) for each in endpoints if each.is_sasl}
