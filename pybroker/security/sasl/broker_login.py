"""Kerberos between brokers: ``sasl.mechanism.inter.broker.protocol=GSSAPI``.

Brokers recognise each other by the secret of the cluster (``cluster.peer_secret``). With this setting, the secret is
not enough: a broker must first log in with a ticket, on the listener for brokers. Its user must be the same as this
broker's, or in ``super.users``. It logs in again before its session ends.
"""

from __future__ import annotations

from asyncio import wait_for, wrap_future
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Protocol

from pybroker.config import BrokerConfig, ConfigError, rights
from pybroker.config.sasl_listeners import BETWEEN, GSSAPI, Kerberos, between_by_kerberos, for_brokers, read
from pybroker.security.sasl.kerberos import short_names
from pyclient.protocol import gssapi
from pyclient.protocol.sasl import Away, Derive, Exchange
from pyclient.security import kerberos
from pyclient.security.kerberos import KerberosError
from pyclient.security.tickets import Initiator, tickets_of

LIMIT_S: Final = 8.0
"""How long a step of a login may take. This is less than the time in which a connection must become ready."""


class Says(Protocol):
    """The part of a connection's ``Authentication`` that tells how its client has logged in."""

    @property
    def mechanism(self) -> str: ...


class BrokerLogin:
    """Logs this broker in at others, and decides which clients may be brokers."""

    mechanism = GSSAPI

    def __init__(
        self,
        listener: str,
        settings: Kerberos,
        begin: Callable[[str], gssapi.Context],
        users: frozenset[str],
        pool: Executor,
    ) -> None:
        """``begin(service@host)`` returns the context for the broker on that host. ``users`` are the principals of
        brokers. ``pool`` runs steps that may block.
        """
        self._listener = listener
        self._settings = settings
        self._begin = begin
        self._users = users
        self._pool = pool

    def begin(self, host: str) -> Exchange:
        """Begins a login at the broker on this host."""
        return gssapi.client(self._begin(self.target(host)))

    def target(self, host: str) -> str:
        """Returns the service of the broker on this host, for which a ticket is needed."""
        return f"{self._settings.service}@{host}"

    async def work(self, step: Derive | Away) -> bytes:
        """Returns the result of a step that may block, on a thread. Raises KerberosError."""
        assert isinstance(step, Away)
        try:
            return await wait_for(wrap_future(self._pool.submit(step.run)), LIMIT_S)
        except TimeoutError:
            why = f"the KDC has not answered within {LIMIT_S:.0f} s"
            raise KerberosError(why, "is the KDC of krb5.conf running?", lasts=False) from None

    def trouble(self, host: str, error: Exception) -> str:
        """Returns an error text for a failed login."""
        who = f"{self._settings.principal} at {self.target(host)}"
        return f"no login by Kerberos of {who} ({BETWEEN}={GSSAPI}): {error}"

    def refusal(self, listener: str, sasl: Says | None, principal: str) -> str | None:
        """Returns why a client of ``listener`` cannot be a broker; None if it may prove it by the secret."""
        if listener != self._listener:
            return f"brokers must use the listener {self._listener} and log in there by Kerberos ({BETWEEN})"
        if sasl is None or sasl.mechanism != GSSAPI:
            return f"it has not logged in by Kerberos: set {BETWEEN}={GSSAPI} on each broker"
        if principal in self._users:
            return None
        return f"{principal} is neither the broker's own user nor in {rights.SUPER_USERS}"


def broker_login(config: BrokerConfig, pool: Executor) -> BrokerLogin | None:
    """Returns the login, None if brokers use only their secret. Reads krb5.conf. Raises ConfigError."""
    listener = between_by_kerberos(config)
    if listener is None:
        return None
    settings = for_brokers(config, listener, read(config, listener))
    tickets = tickets_of({}, settings.keytab, settings.principal)
    try:
        library = kerberos.library()
        own = short_names(library, settings).own(settings.principal)
    except ValueError as error:
        raise ConfigError(f"listener {listener}: GSSAPI between brokers: {error}") from None
    users = rights.super_users(config) | {f"User:{own}"}
    return BrokerLogin(listener, settings, lambda target: Initiator(library, target, tickets), users, pool)
