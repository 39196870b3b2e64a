"""Tests TLS with an address by the client's settings: whether the handshake succeeds, and when it will begin to fail.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final

from cy.counted import counted
from pybroker.cli.reaching.finding import ERROR, OK, WARNING, Finding
from pybroker.cli.reaching.network import Reach

PLAIN: Final = "PLAINTEXT"
PROTOCOL: Final = "security.protocol"
SOON_DAYS: Final = 30
"""A certificate that expires within so many days is reported."""
DAY_S: Final = 86_400


def protocol(settings: Mapping[str, str]) -> str:
    """Returns the client's security.protocol."""
    return settings.get(PROTOCOL, PLAIN).strip().upper()


def is_plain(settings: Mapping[str, str]) -> bool:
    """Says whether the client uses neither TLS nor SASL."""
    return protocol(settings) == PLAIN


def is_by_tls(settings: Mapping[str, str]) -> bool:
    """Says whether the client uses TLS."""
    from pyclient.config.security import BY_TLS

    return protocol(settings) in BY_TLS


def is_by_sasl(settings: Mapping[str, str]) -> bool:
    """Says whether the client authenticates by SASL."""
    from pyclient.config.security import BY_SASL

    return protocol(settings) in BY_SASL


def handshake(settings: Mapping[str, str], way: Reach, timeout: float) -> Finding:
    """Performs a handshake with the address, and disconnects."""
    from pyclient.config import ADMIN, load
    from pyclient.core.security.secured import secured
    from pyclient.core.security.tls_trouble import IS_PROTOCOL_RIGHT, certificate_of, of_tls
    from pyclient.errors import ConfigError

    what = f"TLS with {way.name}"
    try:
        security = secured(load(ADMIN, way.name, dict(settings)))
    except ConfigError as error:
        return Finding(ERROR, what, str(error), "correct the settings of the client")
    assert security is not None
    try:
        plain = socket.create_connection((way.host, way.port), timeout)
    except OSError as error:
        return Finding(ERROR, what, error.strerror or str(error))
    with plain, security.context.wrap_socket(plain, server_hostname=way.host, do_handshake_on_connect=False) as tls:
        try:
            tls.do_handshake()
        except TimeoutError:
            advice = worded(IS_PROTOCOL_RIGHT.format(security.protocol))
            return Finding(ERROR, what, f"no answer in {timeout:g} s", advice)
        except OSError as error:
            trouble = of_tls(error, way.host, certificate_of(tls), security.has_key, security.protocol)
            if trouble is None:
                return Finding(ERROR, what, str(error))
            return Finding(ERROR, what, trouble.why, worded(trouble.advice))
        return agreed(what, tls, time.time())


def agreed(what: str, tls: ssl.SSLSocket, now: float) -> Finding:
    """Reports the negotiated TLS version, and how long the certificate is valid."""
    certificate = tls.getpeercert() or {}
    end = str(certificate["notAfter"])
    days = int((ssl.cert_time_to_seconds(end) - now) / DAY_S)
    text = f"{tls.version()}, the certificate is valid until {end}"
    if days < SOON_DAYS:
        return Finding(WARNING, what, f"{text}: {counted(days, 'day')}", "the broker needs a new one soon")
    return Finding(OK, what, text)


def worded(advice: str) -> str:
    """Returns advice in the form for a finding, without the mark that joins it to an error."""
    return advice.removeprefix("; ")
