"""Kerberos tickets for a service, from a keytab or a credential cache, and the exchange with the service.

The library fetches tickets, and new ones when they expire. With a keytab, it keeps them in memory; clients of this
process with the same keytab and principal share them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from pyclient.security import kerberos
from pyclient.security.kerberos import KerberosError

_KEYTAB: Final = "client_keytab"
_FILE: Final = "FILE:"
_IN_MEMORY: Final = "MEMORY:pyclient-"
_fetching: Final = Lock()
"""Guards the caches of tickets in memory: one thread at a time creates a cache or renews its tickets."""


class Tickets(NamedTuple):
    """The owner of a Kerberos ticket, and where tickets are stored."""

    principal: str | None
    """None means the first principal of the keytab, or that of the cache."""
    store: Mapping[str, str]
    """Where the library finds keys and tickets; empty means the cache that kinit fills."""

    def check(self) -> None:
        """Raises KerberosError if the keytab cannot be read. The library's own error would be about a missing cache."""
        path = self.store.get(_KEYTAB, "").removeprefix(_FILE)
        if path and ":" not in path and not os.access(path, os.R_OK):
            raise KerberosError(f"the keytab {path} does not exist, or cannot be read")


def tickets_of(options: Mapping[str, str], keytab: str | None = None, principal: str | None = None) -> Tickets:
    """Returns the owner that the options of Java's Krb5LoginModule tell; ``keytab`` and ``principal`` take precedence
    over them.

    Raises ValueError.
    """
    is_by_keytab = options.get("useKeyTab", "").lower() == "true"
    keytab = keytab or (options.get("keyTab") if is_by_keytab else None)
    principal = principal or options.get("principal")
    if keytab:
        who = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()
        return Tickets(principal, {_KEYTAB: keytab, "ccache": f"{_IN_MEMORY}{who}"})
    if is_by_keytab:
        raise ValueError('useKeyTab="true" needs keyTab="FILE"')
    cache = options.get("ticketCache")
    return Tickets(principal, {"ccache": cache} if cache else {})


class Initiator(kerberos.Context):
    """The client's side of an exchange with ``target``, which is SERVICE@HOST."""

    def __init__(self, gssapi: Any, target: str, tickets: Tickets) -> None:
        super().__init__(gssapi)
        self._target = target
        self._tickets = tickets

    def make(self) -> Any:
        """Creates the library's context. It may fetch a ticket."""
        gssapi, tickets = self._gssapi, self._tickets
        tickets.check()
        name = tickets.principal and gssapi.Name(tickets.principal, gssapi.NameType.kerberos_principal)
        by = gssapi.MechType.kerberos
        try:
            with _fetching, kerberos.told():
                store = dict(tickets.store) or None
                credentials = gssapi.Credentials(name=name or None, usage="initiate", mechs=[by], store=store)
        except KerberosError as error:
            if error.has_no_ticket and _KEYTAB in tickets.store:
                whom = tickets.principal or "anybody"
                raise KerberosError(f"the keytab {tickets.store[_KEYTAB]} has no key of {whom}") from None
            raise
        flags = [gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity]
        target = gssapi.Name(self._target, gssapi.NameType.hostbased_service)
        return gssapi.SecurityContext(name=target, creds=credentials, mech=by, flags=flags, usage="initiate")
