"""The settings with which clients of several libraries reach a broker of ``pybroker.run()``, in each library's names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybroker.passwords import Login
from pyclient.keywords import with_dots

Settings = dict[str, Any]
Secured = Callable[[str, str | None], Settings]
"""A function of the authority's file, and the file with the client's key and certificate (or None)."""


def _pyclient(authority: str, own: str | None) -> Settings:
    shown = {} if own is None else {"ssl_keystore_location": own}
    return {"ssl_truststore_location": authority, **shown}


def _confluent_kafka(authority: str, own: str | None) -> Settings:
    shown = {} if own is None else {"ssl.certificate.location": own, "ssl.key.location": own}
    return {"ssl.ca.location": authority, **shown}


def _kafka_python(authority: str, own: str | None) -> Settings:
    shown = {} if own is None else {"ssl_certfile": own}
    return {"ssl_cafile": authority, **shown}


def _aiokafka(authority: str, own: str | None) -> Settings:
    import ssl  # the import takes 10 ms, which other tests save

    context = ssl.create_default_context(cafile=authority)
    if own is not None:
        context.load_cert_chain(own)
    return {"ssl_context": context}


def _java(authority: str, own: str | None) -> Settings:
    shown = {} if own is None else {"ssl.keystore.type": "PEM", "ssl.keystore.location": own}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority, **shown}


def _by_pair(login: Login) -> Settings:
    return {"sasl_mechanism": login.mechanism, "sasl_username": login.user, "sasl_password": login.password}


def _by_plain_pair(login: Login) -> Settings:
    """Returns the settings, whose names are the same for all mechanisms."""
    names = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
    return dict(zip(names, (login.mechanism, login.user, login.password), strict=True))


def _by_jaas(login: Login) -> Settings:
    return {"sasl_mechanism": login.mechanism, "sasl_jaas_config": login.jaas()}


class Library(NamedTuple):
    """The settings that one client library needs."""

    secured: Secured
    logged_in: Callable[[Login], Settings]


LIBRARIES: Final = {
    "pyclient": Library(_pyclient, _by_pair),
    "confluent-kafka": Library(_confluent_kafka, _by_pair),
    "kafka-python": Library(_kafka_python, _by_plain_pair),
    "aiokafka": Library(_aiokafka, _by_plain_pair),
    "java": Library(_java, _by_jaas),
}
_WITH_DOTS: Final = ("confluent-kafka", "java")


def protocol(*, tls: bool, sasl: bool) -> str:
    """Returns Kafka's ``security.protocol``."""
    return ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")


def settings_for(
    library: str, bootstrap: str, authority: Path | None, own: Path | None, login: Login | None = None
) -> Settings:
    """Returns a client's settings. With ``authority``, the client uses TLS; with ``own``, its own certificate; with
    ``login``, SASL.

    Raises ValueError.
    """
    if library not in LIBRARIES:
        raise ValueError(f"library={library!r} is not one of {', '.join(LIBRARIES)}")
    common: Settings = {"bootstrap_servers": bootstrap}
    if authority is not None or login is not None:
        common["security_protocol"] = protocol(tls=authority is not None, sasl=login is not None)
    if login is not None:
        common |= LIBRARIES[library].logged_in(login)
    if library in _WITH_DOTS:
        common = with_dots(common)
    if authority is None:
        return common
    return common | LIBRARIES[library].secured(str(authority), None if own is None else str(own))
