"""GSSAPI at the client: gets a Kerberos ticket for the broker's service, according to the client's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyclient.config import Config
from pyclient.errors import ConfigError
from pyclient.security import kerberos
from pyclient.security.kerberos import KerberosError
from pyclient.security.tickets import Initiator, tickets_of

SERVICE: Final = "sasl.kerberos.service.name"


def initiator(config: Config, options: Mapping[str, str]) -> Callable[[str], kerberos.Context]:
    """Returns a function that begins an exchange with the broker on a host. The keys sasl.kerberos.* and the options of
    Java's login module configure it. Raises ConfigError.
    """
    try:
        gssapi = kerberos.library()
    except KerberosError as error:
        raise ConfigError(f"sasl.mechanism=GSSAPI: {error}") from None
    try:
        tickets = tickets_of(options, config.sasl_kerberos_keytab, config.sasl_kerberos_principal)
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config: {error}, or sasl.kerberos.keytab") from None
    service = config.sasl_kerberos_service_name if SERVICE in config.given else options.get("serviceName")
    service = service or config.sasl_kerberos_service_name
    return lambda host: Initiator(gssapi, f"{service}@{host}", tickets)
