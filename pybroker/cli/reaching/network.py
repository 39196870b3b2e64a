"""Checks whether a broker can be reached (name, port, protocol), and whether the addresses that brokers give to their
clients lead to them.

A client asks the address that it was given (bootstrap) where the brokers are, and from then on goes to the addresses
that they advertise. So a bootstrap address may work although no advertised address does: the most common problem with
Kafka.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from pybroker.cli.reaching.finding import ERROR, OK, WARNING, Finding
from pybroker.config.listeners import ANYWHERE, is_loopback
from pyclient.core.nodes.bootstrap import address

SLOW_S = 0.5


class Reach(NamedTuple):
    """An attempt to reach ``host:port``. ``phase`` is where it failed (resolve, connect), "" if it succeeded; ``error``
    says why it failed."""

    host: str
    port: int
    addresses: tuple[str, ...]
    seconds: float
    phase: str = ""
    error: str = ""

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        return not self.phase


def addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Splits ``host:port`` at commas as a client does. Raises ConfigError."""
    parts = [part for each in bootstrap.split(",") if (part := each.strip())]
    return map(address, parts or [bootstrap])


def reach(host: str, port: int, timeout: float) -> Reach:
    """Resolves the name, connects and disconnects."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Reach(host, port, (), 0.0, "resolve", error.strerror or str(error))
    addresses = tuple(dict.fromkeys(str(row[4][0]) for row in rows))
    begun = time.monotonic()
    try:
        socket.create_connection((host, port), timeout).close()
    except TimeoutError:
        return Reach(host, port, addresses, 0.0, "connect", f"no answer in {timeout:g} s")
    except OSError as error:
        return Reach(host, port, addresses, 0.0, "connect", error.strerror or str(error))
    return Reach(host, port, addresses, time.monotonic() - begun)


def bootstrap(found: Reach) -> Finding:
    """Reports whether an address from the user can be reached."""
    what = f"bootstrap {found.name}"
    if found.phase == "resolve":
        return Finding(ERROR, what, f"the name has no address: {found.error}", "correct the name, DNS, or /etc/hosts")
    if found.phase:
        text = f"{', '.join(found.addresses)}: {found.error}"
        advice = "does a broker run there? `pybroker start` starts one; is a firewall between?"
        return Finding(ERROR, what, text, advice)
    text = f"{', '.join(found.addresses)}: connected in {found.seconds * 1000:.1f} ms"
    if found.seconds > SLOW_S:
        return Finding(WARNING, what, text, "a long way: raise linger.ms and batch.size, or move closer")
    return Finding(OK, what, text)


def foreign(host: str, port: int, error: str, is_tls: bool, mechanisms: Collection[str] = ()) -> Finding:
    """Reports a server that does not answer as Kafka does. ``is_tls`` is True if it speaks TLS; ``mechanisms`` are its
    SASL mechanisms.
    """
    what = f"bootstrap {host}:{port}"
    found, protocol, settings = [], "PLAINTEXT", []
    if is_tls:
        found, protocol, settings = ["it speaks TLS"], "SSL", ["ssl.truststore.location"]
    if mechanisms:
        found.append(f"it asks who the client is, by SASL: {', '.join(mechanisms)}")
        protocol = "SASL_SSL" if is_tls else "SASL_PLAINTEXT"
        settings += ["sasl.mechanism", "sasl.username", "sasl.password"]
    if not found:
        return Finding(ERROR, what, f"it does not answer as Kafka: {error}", "is it the port of something else?")
    *others, last = f"security.protocol={protocol}", *settings
    advice = f"set {', '.join(others)} and {last} by --command-config or -X, or name a PLAINTEXT listener"
    return Finding(ERROR, what, "; ".join(found), advice)


def advertised(broker: int, found: Reach, came_by: Reach, others: Collection[Reach] = ()) -> Finding:
    """Reports on the address that broker ``broker`` gives to clients. ``came_by`` is the bootstrap address that works;
    ``others`` are the addresses of all brokers.
    """
    what = f"broker {broker} advertises {found.name}"
    if found.is_open:
        if is_loopback(found.host) and not is_loopback(came_by.host):
            text = "it can be reached only from this machine"
            return Finding(WARNING, what, text, remedy(found, came_by))
        return Finding(OK, what, f"connected in {found.seconds * 1000:.1f} ms")
    if is_down(found, others):
        text = f"the machine answers, but no broker does there ({found.error}): it seems to be down"
        return Finding(ERROR, what, text, "start that broker, or see its log for the reason")
    return Finding(ERROR, what, explanation(found, came_by), remedy(found, came_by))


def is_down(found: Reach, others: Collection[Reach]) -> bool:
    """Returns True if the address seems right but the broker is down: another broker on the same machine can be reached
    at its advertised address.
    """
    reached = {address for each in others if each.is_open for address in each.addresses}
    return found.phase == "connect" and not reached.isdisjoint(found.addresses)


def explanation(found: Reach, came_by: Reach) -> str:
    """Returns a text that says why clients fail although the bootstrap address works."""
    if found.host in ANYWHERE:
        why = "no client can connect to such an address"
    elif is_loopback(found.host):
        why = f"that is the machine of each client itself ({found.error})"
    elif found.phase == "resolve":
        why = f"that name has no address here ({found.error}): perhaps one of a container, or of another network"
    else:
        why = f"it cannot be reached ({found.error}): perhaps an address of another network, or a firewall"
    return f"clients that come by {came_by.name} are sent on to {found.name}; {why}"


def remedy(found: Reach, came_by: Reach) -> str:
    """Says which setting or name to correct."""
    ways = " (DNS, /etc/hosts)" if found.phase == "resolve" else ""
    setting = f"advertised.listeners=PLAINTEXT://{came_by.name}"
    return f"start that broker with {setting}, or make {found.host or 'it'} lead there{ways}"


def other_cluster(broker: int, found: Reach, expected: str | None, there: str | None) -> Iterator[Finding]:
    """Reports an advertised address at which another cluster answers."""
    if expected != there:
        text = f"cluster {there} answers there, not {expected}"
        advice = "two brokers advertise one address: give each its own in advertised.listeners"
        yield Finding(ERROR, f"broker {broker} advertises {found.name}", text, advice)
