"""What clients of other libraries need to reach a broker of ``pybroker.run()``, by the names that each has for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Settings = dict[str, Any]
Secured = Callable[[str, str | None], Settings]
"""Of the file of the authority, and of one with the client's key and certificate where it shows one."""


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
    import ssl  # costs 10 ms, which a test without it need not

    context = ssl.create_default_context(cafile=authority)
    if own is not None:
        context.load_cert_chain(own)
    return {"ssl_context": context}


def _java(authority: str, own: str | None) -> Settings:
    shown = {} if own is None else {"ssl.keystore.type": "PEM", "ssl.keystore.location": own}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority, **shown}


LIBRARIES: Final[dict[str, Secured]] = {
    "pyclient": _pyclient,
    "confluent-kafka": _confluent_kafka,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "java": _java,
}
_WITH_DOTS: Final = ("confluent-kafka", "java")


def settings_for(library: str, bootstrap: str, authority: Path | None, own: Path | None) -> Settings:
    """With an ``authority``, those of a client by TLS; ``own``: what it shows of itself. Raises ValueError."""
    if library not in LIBRARIES:
        raise ValueError(f"library={library!r} is none of {', '.join(LIBRARIES)}")
    common = {"bootstrap_servers": bootstrap}
    if authority is not None:
        common["security_protocol"] = "SSL"
    if library in _WITH_DOTS:
        common = {name.replace("_", "."): text for name, text in common.items()}
    if authority is None:
        return common
    return common | LIBRARIES[library](str(authority), None if own is None else str(own))
