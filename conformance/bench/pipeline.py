"""Puts load on a broker by hand: one thread drives many connections with pre-encoded frames, several in flight on each.

A ``Client`` is one connection as a state machine: it decides what to send first, and what after each reply. ``drive``
runs any number of them until all are done.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.bench.cases import LoadError
from harness.servers.brokers import Broker

SILENCE_S = 120.0
RECEIVE_SIZE = 1 << 18


@dataclass(frozen=True, slots=True)
class Later:
    """Frames to send after a pause."""

    frames: bytes
    delay_s: float


class Client:
    """A connection; ``done`` ends it. ``address``: the broker to connect to, if not the load's own."""

    done = False
    address: tuple[str, int] | None = None

    def start(self) -> bytes:
        """Returns the first frames."""
        raise NotImplementedError

    def answer(self, reply: bytes) -> bytes | Later:
        """Returns the frames to send after a reply (which comes without its length), or nothing to wait for the next
        reply.
        """
        raise NotImplementedError


class Repeated(Client):
    """Sends one frame many times, ``depth`` of them in flight; every reply must be the expected one."""

    def __init__(self, frame: bytes, expected: bytes, count: int, depth: int = 5) -> None:
        self.frame, self.expected = frame, expected
        self.unsent, self.due, self.depth = count, count, depth

    def start(self) -> bytes:
        first = min(self.depth, self.unsent)
        self.unsent -= first
        return self.frame * first

    def answer(self, reply: bytes) -> bytes:
        if reply != self.expected:
            raise LoadError(f"{reply!r} instead of {self.expected!r}")
        self.due -= 1
        self.done = self.due == 0
        if not self.unsent:
            return b""
        self.unsent -= 1
        return self.frame


class _Link:
    """A client's socket, with the bytes that it has to send and to read."""

    def __init__(self, address: tuple[str, int], client: Client) -> None:
        self.client = client
        self.socket = socket.create_connection(address, 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def replies(self) -> list[bytes]:
        """Returns the complete replies received so far."""
        data = self.socket.recv(RECEIVE_SIZE)
        if not data:
            raise LoadError("the broker closed the connection")
        self.received += data
        found, place = [], 0
        while len(self.received) - place >= 4:
            (size,) = struct.unpack_from(">i", self.received, place)
            if len(self.received) - place - 4 < size:
                break
            found.append(bytes(self.received[place + 4 : place + 4 + size]))
            place += 4 + size
        del self.received[:place]
        return found


class Load:
    """Keeps connections open over several runs."""

    def __init__(self, broker: Broker | None, clients: Sequence[Client]) -> None:
        """``broker``: serves clients without an address of their own."""
        self._selector = selectors.DefaultSelector()
        self._links = [_Link(_address(client, broker), client) for client in clients]
        self._later: list[tuple[float, int, _Link, bytes]] = []
        self._number = itertools.count()
        for link in self._links:
            self._selector.register(link.socket, selectors.EVENT_READ, link)

    def run(self) -> float:
        """Starts all clients and returns the seconds until the last one is done.

        Raises:
            LoadError: a client got an unexpected answer, or none.
        """
        start = time.monotonic()
        for link in self._links:
            link.client.done = False
            link.socket.sendall(link.client.start())
        left = len(self._links)
        while left:
            left -= self._turn()
        return time.monotonic() - start

    def _turn(self) -> int:
        """Serves the sockets that are ready; returns how many clients are done."""
        timeout = max(0.0, self._later[0][0] - time.monotonic()) if self._later else SILENCE_S
        ready = self._selector.select(timeout)
        if not ready and not self._later:
            raise LoadError(f"no reply within {SILENCE_S:g} s")
        finished = sum(self._serve(key.data) for key, _ in ready)
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, link, frames = heapq.heappop(self._later)
            link.socket.sendall(frames)
        return finished

    def _serve(self, link: _Link) -> int:
        out = bytearray()
        for reply in link.replies():
            following = link.client.answer(reply)
            if isinstance(following, Later):
                due = time.monotonic() + following.delay_s
                heapq.heappush(self._later, (due, next(self._number), link, following.frames))
            else:
                out += following
        if out:
            link.socket.sendall(out)
        return link.client.done

    def close(self) -> None:
        self._selector.close()
        for link in self._links:
            link.socket.close()


def _address(client: Client, broker: Broker | None) -> tuple[str, int]:
    if client.address is not None:
        return client.address
    assert broker is not None
    return broker.address


def drive(broker: Broker, clients: Sequence[Client]) -> float:
    """Runs each client once on its own connection; returns seconds."""
    load = Load(broker, clients)
    try:
        return load.run()
    finally:
        load.close()
