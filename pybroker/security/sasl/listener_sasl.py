"""SASL of the listeners, from the configuration: it makes the authentication of each new connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from pybroker.config import BrokerConfig, Endpoint
from pybroker.config.sasl_listeners import OAUTHBEARER, PLAIN, Kerberos, SaslListener, read
from pybroker.security.sasl.authentication import Authentication, Mechanism
from pybroker.security.sasl.plain import Plain
from pybroker.security.sasl.scram_server import ScramUsers, Stored
from pybroker.security.tokens import TokenLogins
from pyclient.protocol import scram

if TYPE_CHECKING:
    from pybroker.security.sasl.oauth import Tokens


class ListenerSasl:
    """The SASL mechanisms of one listener."""

    def __init__(
        self,
        config: BrokerConfig,
        listener: str,
        stored: Stored,
        secret: bytes,
        pool: Executor,
        held: TokenLogins | None = None,
    ) -> None:
        """``secret`` and ``held`` are for ``ScramUsers``. ``pool`` runs steps that may block. Raises ConfigError."""
        settings = read(config, listener)
        self.listener = listener
        self._max_reauth_ms = settings.mechanisms
        self.tokens = _tokens(listener, settings)
        self._mechanisms: dict[str, Mechanism] = {}
        for name in settings.mechanisms:
            if name == PLAIN:
                self._mechanisms[name] = Plain(settings.passwords)
            elif name in scram.MECHANISMS:
                self._mechanisms[name] = ScramUsers(scram.MECHANISMS[name], stored, secret, held)
            elif name == OAUTHBEARER and self.tokens is not None:
                self._mechanisms[name] = self.tokens
            elif settings.kerberos is not None:
                self._mechanisms[name] = _kerberized(listener, settings.kerberos, pool)

    def begin(self) -> Authentication:
        """Returns the authentication of a new connection."""
        return Authentication(self.listener, self._mechanisms, self._max_reauth_ms)


def _tokens(listener: str, settings: SaslListener) -> Tokens | None:
    """Returns the checker of tokens; only a broker with OAUTHBEARER imports it. Raises ConfigError."""
    if settings.oauth is None:
        return None
    from pybroker.security.sasl.oauth import Tokens

    return Tokens(listener, settings.oauth)


def _kerberized(listener: str, settings: Kerberos, pool: Executor) -> Mechanism:
    """Returns the mechanism GSSAPI, whose library must be installed separately. Raises ConfigError."""
    from pybroker.security.sasl.kerberos import kerberized

    return kerberized(listener, settings, pool)


def authenticated(
    config: BrokerConfig,
    endpoints: Iterable[Endpoint],
    stored: Stored,
    secret: bytes,
    pool: Executor,
    held: TokenLogins | None = None,
) -> Mapping[str, ListenerSasl]:
    """Returns SASL of those listeners that use it, by name. Raises ConfigError."""
    names = [each.listener for each in endpoints if each.is_sasl]
    return {name: ListenerSasl(config, name, stored, secret, pool, held) for name in names}
