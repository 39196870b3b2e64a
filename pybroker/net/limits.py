"""Every limit of the network: those that ``config`` sets, and a few that only this broker has."""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.keys.sasl_keys import MAX_RECEIVE
from pybroker.config.listeners import listeners, protected

UNLIMITED = 1 << 62
LEAST_RESERVED, MOST_RESERVED = 32, 256
"""How many descriptors are kept free of connections and logs: for the store, other brokers and temporary needs."""
CONNECTIONS = "max.connections"
OVERRIDES = "max.connections.per.ip.overrides"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server and of each of its connections."""

    max_request_bytes: int = 100 * 1024 * 1024
    """``socket.request.max.bytes``: a longer frame closes its connection."""
    queued_bytes: int = UNLIMITED
    """``queued.max.request.bytes``: memory for incomplete frames of all connections."""
    idle_ms: int = 600_000
    """``connections.max.idle.ms``: no byte received or sent for this time, and no request being handled."""
    max_connections: int = UNLIMITED
    """``max.connections``, or what the process's descriptors allow. A further connection closes an unauthenticated
    peer, or one that has sent nothing for ``silent_s``. If there is no such peer, it waits in the backlog.
    """
    per_listener: Mapping[str, int] = field(default_factory=dict)
    """``listener.name.<name>.max.connections``. A further one closes an unauthenticated peer of it, or waits."""
    silent_s: float = 1.0
    protected: str | None = None
    """The listener of brokers. A connection too many there closes the least recently used one of another listener."""
    max_per_ip: int = UNLIMITED
    """``max.connections.per.ip``: further connections are closed at once."""
    per_ip: Mapping[str, int] = field(default_factory=dict)
    """``max.connections.per.ip.overrides``, by address."""
    backlog: int = 1024
    """``socket.listen.backlog.size``."""
    send_buffer: int = -1
    """``socket.send.buffer.bytes``; -1 leaves it to the kernel, which lets it grow to megabytes. If more bytes are in
    flight than the client reads in time, each byte sent takes twice as much CPU time.
    """
    receive_buffer: int = -1
    """``socket.receive.buffer.bytes``; -1 leaves it to the kernel, which sizes it by need."""
    max_unanswered: int = 100
    """``queued.max.requests``: how many unanswered requests a connection may have; further requests are not read."""
    max_unsent: int = 1024 * 1024
    """How many bytes of replies a connection may keep unsent. If it has more, none of its requests are read."""
    frame_grace_s: float = 30.0
    """A frame must be complete this long after its first byte …"""
    frame_rate: int = 16 * 1024
    """… and one second later for each time that so many bytes have been received."""

    handshake_s: float = 10.0
    """A TLS handshake must be over after this time …"""
    handshake_bytes: int = 64 * 1024
    """… and after this many bytes of the client, most of which are its certificates."""
    max_handshakes: int = 1000
    """How many handshakes may be in progress at a listener. A further one ends the one that has waited longest, for its
    peer or for the thread. As many SASL clients of a listener may be unauthenticated; a further one closes the oldest.
    """
    strange_bytes: int = 512 * 1024
    """``sasl.server.max.receive.size``: the longest frame of an unauthenticated client, which must log in within
    ``handshake_s``.
    """
    strange_bytes_of: Mapping[str, int] = field(default_factory=dict)
    """``listener.name.<name>.sasl.server.max.receive.size``."""
    refusal_delay_s: float = 0.1
    """``connection.failed.authentication.delay.ms``: a failed login is answered after this time."""

    def of_address(self, address: str) -> int:
        """Returns how many connections ``address`` may have."""
        return self.per_ip.get(address, self.max_per_ip)

    def of_listener(self, name: str) -> int:
        """Returns how many connections a listener may have."""
        return self.per_listener.get(name, UNLIMITED)

    def strange_bytes_at(self, listener: str) -> int:
        """Returns the longest frame of an unauthenticated client of a listener."""
        return min(self.strange_bytes_of.get(listener, self.strange_bytes), self.max_request_bytes)


def from_config(config: BrokerConfig) -> Limits:
    """Returns the limits that ``config`` sets.

    Kafka's defaults for the receive buffer (100 KiB) and the backlog (50) are for small machines of its time, and in
    Kafka all connections share one request queue. So these three settings count only if they are set explicitly.
    """

    def if_set(name: str, otherwise: int) -> int:
        return int(config[name]) if config.is_set(name) else otherwise

    def of_listeners(name: str) -> dict[str, int]:
        names = [each.listener for each in listeners(config) if config.has_own(each.listener, name)]
        return {each: config.of_listener(each, name) for each in names}

    queued, idle = config["queued.max.request.bytes"], config["connections.max.idle.ms"]
    return Limits(
        max_request_bytes=config["socket.request.max.bytes"],
        queued_bytes=queued if queued > 0 else UNLIMITED,
        idle_ms=idle if idle >= 0 else UNLIMITED,
        max_connections=min(config[CONNECTIONS], descriptors_for_connections()),
        per_listener=of_listeners(CONNECTIONS),
        protected=protected(config),
        max_per_ip=config["max.connections.per.ip"],
        per_ip=parse_overrides(config[OVERRIDES]),
        max_unanswered=if_set("queued.max.requests", 100),
        backlog=if_set("socket.listen.backlog.size", 1024),
        send_buffer=config["socket.send.buffer.bytes"],
        receive_buffer=if_set("socket.receive.buffer.bytes", -1),
        strange_bytes=config[MAX_RECEIVE],
        strange_bytes_of=of_listeners(MAX_RECEIVE),
        refusal_delay_s=config["connection.failed.authentication.delay.ms"] / 1000,
    )


def descriptors_for_connections() -> int:
    """Returns how many connections leave enough descriptors for the logs (``log.manager``) and everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(LEAST_RESERVED, soft // 2 - max(LEAST_RESERVED, min(soft // 10, MOST_RESERVED)))


def spare_descriptors(connections: int) -> int:
    """Returns how many descriptors the logs may use beyond their own share while there are so many connections.

    They may use three quarters of those that connections could have but do not. The last quarter is for files that the
    cache has closed while they are still being sent.
    """
    most = descriptors_for_connections()
    return 0 if most == UNLIMITED else max(0, most - connections) * 3 // 4


def parse_overrides(text: str) -> dict[str, int]:
    """Parses ``host:count,[::1]:count`` into limits by address; a host name stands for all its addresses. Raises
    ConfigError.
    """
    limits = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = item.rpartition(":")
        if not colon or not count.isdigit():
            raise ConfigError(f"{OVERRIDES}={text}: {item!r} is not of the form host:count")
        for address in _addresses(host.strip("[]")):
            limits[address] = int(count)
    return limits


def _addresses(host: str) -> set[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{OVERRIDES}: host {host!r} is not known: {error}") from error
    return {str(sockaddr[0]) for *_, sockaddr in found}
