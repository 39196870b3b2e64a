"""Finds the address at which a client should connect to a broker, from the connection that the client already has."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.config import Endpoint
from pybroker.config.listeners import ANYWHERE

Address = tuple[str, int]


def addresses(
    image: MetadataImage,
    listener: str,
    own_id: int,
    advertised: Mapping[str, Endpoint],
    local: Address,
) -> dict[int, Address]:
    """Returns host and port by node id of every live broker that has this ``listener``.

    ``advertised`` are this broker's advertised listeners by name. If it has none for the listener, this broker's
    address is the one that the client already uses: ``local``, the local address of its connection. On a TLS listener
    it is the registered name, because a certificate names hosts. If clients use Kerberos, ``advertised`` has the
    registered name.
    """
    found = {}
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        is_plain = endpoint is None or not endpoint.is_tls
        if broker.id == own_id and listener not in advertised and is_plain:
            found[broker.id] = local
        elif endpoint is not None:
            found[broker.id] = (endpoint.host, endpoint.port)
    return found


def registered(
    listeners: Mapping[str, Endpoint], advertised: Mapping[str, Endpoint]
) -> tuple[Endpoint, ...]:
    """Returns the endpoints to register: the advertised ones; without these, the bound ones with a reachable host.

    ``listeners`` are the bound listeners by name, with their real ports.
    """
    return tuple(
        advertised.get(name) or endpoint._replace(host=_reachable(endpoint.host))
        for name, endpoint in listeners.items()
    )


def _reachable(host: str) -> str:
    return socket.getfqdn() if host in ANYWHERE else host


def name_of_machine() -> str:
    """Returns the host's name."""
    return socket.gethostname()


def boot_of_machine() -> str:
    """Returns an id that changes each time the machine starts, "" if it is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
