"""TLS handshakes: the state between an accepted socket and a connection.

A step of a handshake takes up to some milliseconds of CPU (a signature, the verification of a chain). It runs on a
thread, where OpenSSL releases the GIL, so the loop continues. Each handshake is limited in time and bytes. Each
listener has a limited number of them. A further one ends the handshake that has waited longest, for its peer or for
the thread. Until a complete ClientHello (``client_hello``) has arrived, only the socket and its bytes take memory.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from pybroker.net import complaint
from pybroker.net.channel import Accepted
from pybroker.net.limits import Limits
from pybroker.net.ratelimit import RateLimitedLog
from pybroker.net.tls.client_hello import RECORD, HelloReader
from pyclient.protocol.tls import MEMORY, RECORD_BYTES, TlsLayer

PREFIX: Final = 8
"""How many bytes show which protocol a peer speaks."""


class Secured(Protocol):
    """The part of a listener's TLS (``security.tls.listener_tls``) that this module uses."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""

    def principal(self, certificate: bytes | None) -> str:
        """Returns the principal of a client with this certificate (DER), or without one. Raises ValueError if no rule
        gives one.
        """


class Handshake:
    """One handshake in progress.

        waiting for the peer <-> a step on the thread -> a connection, or the end
    """

    __slots__ = (
        *("_all", "_fd", "_hello", "_received", "_tls", "accepted", "began_at"),
        *("listener_name", "peer_address", "sock"),
    )

    def __init__(self, handshakes: Handshakes, accepted: Accepted) -> None:
        self._all = handshakes
        self._fd = accepted.sock.fileno()
        self._received = 0
        self._hello: HelloReader | None = None
        self._tls: TlsLayer | None = None
        self.accepted = accepted
        self.sock = accepted.sock
        self.listener_name = accepted.listener_name
        self.peer_address = accepted.peer_address
        self.began_at = handshakes.loop.time()
        self._wait()

    def _wait(self) -> None:
        """Waits for the peer's next message."""
        self._all.waiting[self] = None
        self._all.loop.add_reader(self._fd, self._on_readable)

    def _stop_waiting(self) -> None:
        if self in self._all.waiting:
            del self._all.waiting[self]
            self._all.loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        try:
            count = self.sock.recv_into(self._all.memory, RECORD_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.end()
            return
        if not count:
            level = logging.INFO if self._received else logging.DEBUG
            self.fail("it closed the connection during the handshake", level=level)
            return
        data = self._all.memory[:count]
        if not self._received and data[0] != RECORD:
            self.fail(complaint.not_tls(bytes(data[:PREFIX])))
            return
        self._received += count
        if self._received > self._all.limits.handshake_bytes:
            self.fail(f"its handshake has more than {self._all.limits.handshake_bytes} bytes")
        elif self._tls is not None:
            self._go_on(self._tls, data)
        else:
            self._greet(data)

    def _greet(self, data: memoryview) -> None:
        """Adds bytes to the ClientHello; once it is complete and acceptable, begins TLS."""
        hello = self._hello = self._hello or HelloReader()
        if not hello.add(data):
            return
        if hello.asks_for_finite_field():
            self.fail("its key exchange over a finite field (ffdhe…) is too slow: let it use an elliptic curve")
            return
        wrap = partial(self._all.secured.context.wrap_bio, server_side=True)
        self._tls, self._hello = TlsLayer(self.sock, self._all.memory, wrap), None
        self._go_on(self._tls, hello.received)

    def _go_on(self, tls: TlsLayer, data: bytearray | memoryview) -> None:
        tls.feed(data)
        self._stop_waiting()
        self._all.work(self._step, self._on_step)

    def _step(self) -> str | None:
        """Runs one step on the thread. Returns the principal if the handshake is done, None if the peer must send more.

        Raises SSLError, ValueError.
        """
        tls = self._tls
        if tls is None:  # the handshake has ended meanwhile
            return None
        try:
            tls.ssl.do_handshake()
        except ssl.SSLWantReadError:
            return None
        return self._all.secured.principal(tls.ssl.getpeercert(binary_form=True))

    def _on_step(self, step: asyncio.Future[str | None]) -> None:
        error = None if step.cancelled() else step.exception()
        if step.cancelled() or self not in self._all.open:
            return
        assert self._tls is not None
        if error is not None:
            self._tls.end()
            self.fail(complaint.of_handshake(error))
            return
        principal = step.result()
        try:
            is_sent = self._tls.push()
        except OSError:
            self.end()
            return
        if principal is not None:
            self._all.done(self, self._tls, principal)
        elif is_sent:
            self._wait()
        else:
            self.fail("it does not read the handshake")

    def fail(self, why: str, *, level: int = logging.WARNING) -> None:
        """Ends the handshake and logs why."""
        complaint.no_handshake(self._all.log, self, why, level)
        self.end()

    def end(self) -> None:
        """Closes the socket and drops its buffers; a step that is still queued does nothing."""
        self._all.forget(self)
        self._stop_waiting()
        self._tls = self._hello = None
        self.sock.close()


class Handshakes:
    """All handshakes of one listener."""

    def __init__(
        self,
        listener_name: str,
        secured: Secured,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        log: RateLimitedLog,
        on_done: Callable[[Handshake, TlsLayer, str], object],
        on_failed: Callable[[Handshake], object],
    ) -> None:
        """Calls ``on_done(handshake, tls, principal)`` or ``on_failed(handshake)`` once for each handshake."""
        self.listener_name = listener_name
        self.secured = secured
        self.loop = loop
        self.limits = limits
        self.log = log
        self.memory = memoryview(bytearray(MEMORY))
        self.open: dict[Handshake, None] = {}
        """The handshakes in progress, the oldest first."""
        self.waiting: dict[Handshake, None] = {}
        """The handshakes that wait for their peer, the longest first."""
        self._on_done = on_done
        self._on_failed = on_failed
        self._thread = ThreadPoolExecutor(1, "handshake")

    def begin(self, accepted: Accepted) -> None:
        """Begins a handshake on an accepted socket."""
        if len(self.open) >= self.limits.max_handshakes:
            self.give_way()
        self.open[Handshake(self, accepted)] = None

    def give_way(self) -> None:
        """Ends the handshake that has waited longest, if there is any."""
        if self.open:
            why = f"it gives way to others, as {len(self.open)} handshakes are under way"
            next(iter(self.waiting or self.open)).fail(why, level=logging.INFO)

    def work(self, step: Callable[[], str | None], then: Callable[[asyncio.Future[str | None]], None]) -> None:
        """Runs a step on the thread, and then calls ``then``."""
        self.loop.run_in_executor(self._thread, step).add_done_callback(then)

    def done(self, handshake: Handshake, tls: TlsLayer, principal: str) -> None:
        """Completes a handshake: the peer's principal is known."""
        del self.open[handshake]
        self._on_done(handshake, tls, principal)

    def forget(self, handshake: Handshake) -> None:
        """Removes a failed handshake."""
        del self.open[handshake]
        self._on_failed(handshake)

    def sweep(self, now: float) -> None:
        """Ends handshakes that take too long at ``now``, the loop's time."""
        since = now - self.limits.handshake_s
        for handshake in [each for each in self.open if each.began_at < since]:
            handshake.fail(f"its handshake was not over after {self.limits.handshake_s:.0f} s", level=logging.INFO)

    def close(self) -> None:
        """Ends all handshakes."""
        for handshake in list(self.open):
            handshake.end()
        self._thread.shutdown(wait=False, cancel_futures=True)
