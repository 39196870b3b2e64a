"""GSSAPI at the client: a Kerberos ticket for the broker's service, from a keytab or a credential cache.

The library fetches tickets, and new ones when they expire. With a keytab, it keeps them in memory; clients of this
process with the same keytab and principal share them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from pyclient.config import Config
from pyclient.errors import ConfigError
from pyclient.security import kerberos
from pyclient.security.kerberos import KerberosError

SERVICE: Final = "sasl.kerberos.service.name"
_KEYTAB: Final = "client_keytab"
_FILE: Final = "FILE:"
_IN_MEMORY: Final = "MEMORY:pyclient-"
_fetching: Final = Lock()
"""Guards tickets in memory: one thread at a time creates such a cache or renews its tickets."""


class _Login(NamedTuple):
    """The owner of a ticket."""

    principal: str | None
    """None means the first principal of the keytab, or that of the cache."""
    store: Mapping[str, str]
    """Where the library finds keys and tickets; empty means the cache that kinit fills."""

    def check(self) -> None:
        """Raises KerberosError if the keytab cannot be read. The library's own error would be about a missing cache."""
        path = self.store.get(_KEYTAB, "").removeprefix(_FILE)
        if path and ":" not in path and not os.access(path, os.R_OK):
            raise KerberosError(f"the keytab {path} does not exist, or cannot be read")


class _Initiator(kerberos.Context):
    """The client's side of an exchange, in the library."""

    def __init__(self, gssapi: Any, target: str, login: _Login) -> None:
        super().__init__(gssapi)
        self._target = target
        self._login = login

    def make(self) -> Any:
        gssapi, login = self._gssapi, self._login
        login.check()
        name = login.principal and gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        by = gssapi.MechType.kerberos
        try:
            with _fetching, kerberos.told():
                store = dict(login.store) or None
                credentials = gssapi.Credentials(name=name or None, usage="initiate", mechs=[by], store=store)
        except KerberosError as error:
            if error.has_no_ticket and _KEYTAB in login.store:
                whom = login.principal or "anybody"
                raise KerberosError(f"the keytab {login.store[_KEYTAB]} has no key of {whom}") from None
            raise
        flags = [gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity]
        target = gssapi.Name(self._target, gssapi.NameType.hostbased_service)
        return gssapi.SecurityContext(name=target, creds=credentials, mech=by, flags=flags, usage="initiate")


def initiator(config: Config, options: Mapping[str, str]) -> Callable[[str], kerberos.Context]:
    """Returns a function that begins an exchange with the broker of a host. The keys sasl.kerberos.* and the options of
    Java's login module configure it. Raises ConfigError.
    """
    try:
        gssapi = kerberos.library()
    except KerberosError as error:
        raise ConfigError(f"sasl.mechanism=GSSAPI: {error}") from None
    login = _login(config, options)
    service = config.sasl_kerberos_service_name if SERVICE in config.given else options.get("serviceName")
    service = service or config.sasl_kerberos_service_name
    return lambda host: _Initiator(gssapi, f"{service}@{host}", login)


def _login(config: Config, options: Mapping[str, str]) -> _Login:
    is_by_keytab = options.get("useKeyTab", "").lower() == "true"
    keytab = config.sasl_kerberos_keytab or (options.get("keyTab") if is_by_keytab else None)
    principal = config.sasl_kerberos_principal or options.get("principal")
    if keytab:
        who = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()
        return _Login(principal, {_KEYTAB: keytab, "ccache": f"{_IN_MEMORY}{who}"})
    if is_by_keytab:
        raise ConfigError('sasl.jaas.config: useKeyTab="true" needs keyTab="FILE", or sasl.kerberos.keytab')
    cache = options.get("ticketCache")
    return _Login(principal, {"ccache": cache} if cache else {})
