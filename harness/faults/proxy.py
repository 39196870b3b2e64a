"""A TCP proxy between clients and a broker that loses, delays and cuts messages on purpose.

It understands just enough of the protocol to match replies with requests. Every frame starts with its length. A request
continues with api key, version and correlation id, a reply with its correlation id. So a test can lose the acks of the
next three Produce requests: the broker has done the work, and the client never learns of it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from harness.protocol.wire_client import ConnectionClosed, Wire

PRODUCE = 0
#: With this SO_LINGER, a close sends RST instead of FIN.
RESET = struct.pack("ii", 1, 0)
Rule = Callable[[int, int], bool]


class FaultProxy:
    """Listens on a port of its own and forwards to ``target``, which may come and go.

    Give the broker ``advertised.listeners`` of this address, so that clients learn no other address.
    """

    def __init__(self, target: Callable[[], tuple[str, int]]) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()[:2]
        self.delay_s = 0.0
        #: Drops requests, or replies, without notice: the connections stay open.
        self.swallows_requests = self.swallows_replies = False
        #: Closes new connections at once.
        self.refuses = False
        self.lost: list[tuple[int, int]] = []
        self.cuts = 0
        self._rule: Rule | None = None
        self._cut_sizes: Iterator[int] = iter(())
        self._reply_sizes: Iterator[int] = iter(())
        self._lock = threading.Lock()
        self._links: list[Link] = []
        self._closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def lose_replies(self, api_key: int = PRODUCE, *, every: int = 1, count: int = 1_000_000) -> None:
        """Loses every n-th reply to this kind of request and cuts its connection, ``count`` times, from now on."""
        seen = 0
        left = count

        def rule(key: int, _: int) -> bool:
            nonlocal seen, left
            if key != api_key or left == 0:
                return False
            seen += 1
            if seen % every:
                return False
            left -= 1
            return True

        self._rule = rule

    def cut_produces(self, sizes: Iterable[int]) -> None:
        """Cuts the next produce requests: so many bytes of each arrive, then its connection is reset."""
        self._cut_sizes = iter(sizes)

    def cut_size(self, api_key: int) -> int | None:
        """Returns where this request is to be cut. Links call it."""
        if api_key != PRODUCE:
            return None
        with self._lock:
            size = next(self._cut_sizes, None)
            self.cuts += size is not None
            return size

    def cut_replies(self, sizes: Iterable[int]) -> None:
        """Cuts the next replies: so many bytes of each arrive, then its connection is reset."""
        self._reply_sizes = iter(sizes)

    def reply_cut_size(self) -> int | None:
        """Returns where this reply is to be cut. Links call it."""
        with self._lock:
            size = next(self._reply_sizes, None)
            self.cuts += size is not None
            return size

    def black_hole(self, *, requests: bool = True, replies: bool = True) -> None:
        """Drops everything that arrives. A connection that has lost something stays dead after ``heal``."""
        self.swallows_requests, self.swallows_replies = requests, replies

    def heal(self) -> None:
        """Forwards everything again."""
        self._rule = None
        self._cut_sizes = self._reply_sizes = iter(())
        self.delay_s = 0.0
        self.swallows_requests = self.swallows_replies = self.refuses = False

    def cut(self) -> None:
        """Resets every connection."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.reset()

    def half_close(self, *, client: bool) -> None:
        """Sends a FIN on every connection: to the client, or to the broker. The other direction stays open."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.half_close(link.client if client else link.broker)

    def loses(self, api_key: int, correlation_id: int) -> bool:
        """Returns whether the rule drops this reply. Links call it, one at a time."""
        with self._lock:
            taken = self._rule is not None and self._rule(api_key, correlation_id)
            if taken:
                self.lost.append((api_key, correlation_id))
            return taken

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                link = Link(self, client, Wire(self.target()))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._links = [*(other for other in self._links if not other.is_closed), link]
            link.start()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


class Link:
    """One proxied connection, with a thread for each direction."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, broker: Wire) -> None:
        self.proxy = proxy
        self.client = Wire.of(client)
        self.broker = broker
        self.keys: dict[int, int] = {}
        #: A request was dropped, so nothing after it is forwarded.
        self.is_dead = False
        #: A reply was dropped, so no other is forwarded.
        self.is_mute = False
        for wire in (self.client, self.broker):
            wire.socket.settimeout(None)

    def start(self) -> None:
        for direction in (self._requests, self._replies):
            threading.Thread(target=self._pump, args=(direction,), daemon=True).start()

    @property
    def is_closed(self) -> bool:
        return self.client.socket.fileno() < 0

    def reset(self) -> None:
        """Resets both connections with RST, so that bytes in flight are lost."""
        for wire in (self.client, self.broker):
            with contextlib.suppress(OSError):
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                wire.socket.shutdown(socket.SHUT_RD)  # wakes the thread that reads
            wire.close()

    def half_close(self, wire: Wire) -> None:
        """Sends a FIN on this side. What comes from there is still forwarded."""
        with contextlib.suppress(OSError):
            wire.socket.shutdown(socket.SHUT_WR)

    def _pump(self, direction: Callable[[], bool]) -> None:
        try:
            while direction():
                pass
        except (ConnectionClosed, OSError):
            pass
        self.reset()

    def _requests(self) -> bool:
        frame = self.client.receive()
        key, _, correlation_id = struct.unpack_from(">hhi", frame)
        self.keys[correlation_id] = key
        time.sleep(self.proxy.delay_s)
        self.is_dead |= self.proxy.swallows_requests
        if self.is_dead:
            return True
        size = self.proxy.cut_size(key)
        self.broker.send((struct.pack(">i", len(frame)) + frame)[:size])
        return size is None

    def _replies(self) -> bool:
        frame = self.broker.receive()
        (correlation_id,) = struct.unpack_from(">i", frame)
        if self.proxy.loses(self.keys.pop(correlation_id, -1), correlation_id):
            return False
        self.is_mute |= self.proxy.swallows_replies
        if self.is_dead or self.is_mute:
            return True
        size = self.proxy.reply_cut_size()
        self.client.send((struct.pack(">i", len(frame)) + frame)[:size])
        return size is None
