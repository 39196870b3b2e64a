"""Frames through TLS between two streams of ours, in all sizes, and with sockets that take few bytes at a time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl

import pytest

from cy.wire.frames import FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from pyclient.keywords import with_dots
from pyclient.protocol.readiness import readable
from pyclient.protocol.stream import FrameStream
from pyclient.protocol.tls import MOST_UNASKED, Tls, TlsPipe
from pyclient.security import client_context, server_context
from pyclient.security.tests.making import world

PATIENCE_S = 60.0
LITTLE = 4096


class Collector(FrameStream):
    """Keeps the received frames. If it is an echo, it sends them back."""

    def __init__(self, *arguments, echoes=False):
        super().__init__(*arguments)
        self.frames = []
        self.end = None
        self.echoes = echoes
        self.wanted = asyncio.Event()
        self.target = -1

    def send(self, body):
        self._out.append([len(body).to_bytes(4, "big"), body])
        self._push()

    def _on_frame(self, view, start, end, reused):
        body = bytes(view[start:end])
        if self.echoes:
            self.send(body)
        else:
            self.frames.append(body)
        if len(self.frames) == self.target:
            self.wanted.set()

    def _on_end(self, cause):
        self.end = cause
        self.wanted.set()


class ServerPipe(TlsPipe):
    """The other side, for the test."""

    def __init__(self, context, sock):
        super().__init__(Tls(client_context({"ssl.truststore.certificates": world().authority})), sock, "localhost")
        self.ssl = context.wrap_bio(self.incoming, self._outgoing, server_side=True)


def contexts(**server_settings):
    made = world()
    keys = {"ssl.keystore.key": made.server.key, "ssl.keystore.certificate.chain": "\n".join(made.server.chain)}
    given = with_dots(server_settings)
    return server_context(keys | given), client_context({"ssl.truststore.certificates": made.authority})


async def pair(server, client):
    """Returns two streams after their handshake. The second is an echo."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LITTLE)
    here, there = TlsPipe(Tls(client), ours, "localhost"), ServerPipe(server, theirs)
    await asyncio.gather(here.handshake(loop), there.handshake(loop))
    memory = ReceiveMemory()
    return Collector(loop, ours, memory, here), Collector(loop, theirs, memory, there, echoes=True)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_frames_of_all_sizes_pass_tls_unchanged(version):
    chance = random.Random(3)
    sizes = [0, 1, 5, 1 << 14, (1 << 14) - 4, 3 << 20, 1 << 16] + [chance.randrange(1 << 17) for _ in range(60)]
    sent = [chance.randbytes(size) for size in sizes]

    async def work():
        here, there = await pair(*contexts(ssl_enabled_protocols=version))
        here.target = len(sent)
        for body in sent:
            here.send(body)
        await asyncio.wait_for(here.wanted.wait(), PATIENCE_S)
        assert here.frames == sent
        here.close()
        there.wanted.clear()
        await asyncio.wait_for(there.wanted.wait(), PATIENCE_S)
        assert isinstance(there.end, EOFError)

    asyncio.run(work())


def test_bytes_changed_in_transit_end_the_stream():
    async def work():
        here, there = await pair(*contexts())
        there._sock.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await asyncio.wait_for(here.wanted.wait(), PATIENCE_S)
        assert isinstance(here.end, ssl.SSLError)
        assert here.is_closed
        there.close()

    asyncio.run(work())


def test_a_cancelled_handshake_removes_the_watch_of_the_socket():
    async def work():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        shaking = asyncio.ensure_future(TlsPipe(Tls(contexts()[1]), ours, "localhost").handshake(loop))
        await readable(loop, theirs)  # it has said hello, and waits
        shaking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shaking
        assert not loop.remove_reader(ours.fileno())
        assert not loop.remove_writer(ours.fileno())
        ours.close()
        theirs.close()

    asyncio.run(work())


def test_the_server_learns_why_the_client_refused_its_certificate():
    async def work():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        here, there = TlsPipe(Tls(client_context({})), ours, "localhost"), ServerPipe(contexts()[0], theirs)
        refused, told = await asyncio.gather(here.handshake(loop), there.handshake(loop), return_exceptions=True)
        assert isinstance(refused, ssl.SSLCertVerificationError)
        assert "UNKNOWN_CA" in told.reason
        ours.close()
        theirs.close()

    asyncio.run(work())


def test_a_peer_that_causes_tls_answers_without_reading_them_is_dropped():
    async def work():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        server, client = contexts()
        here, there = TlsPipe(Tls(client), ours, "localhost"), ServerPipe(server, theirs)
        await asyncio.gather(here.handshake(loop), there.handshake(loop))
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(LITTLE))
        queue, reader = SendQueue(), FrameReader(ReceiveMemory(), LITTLE)

        def visit():
            queue.append(b"\0\0\0\1x")
            there.flush(queue, theirs.fileno())
            here._outgoing.write(bytes(MOST_UNASKED))  # as OpenSSL answers to what asks for new keys
            assert here.receive(reader, ours.fileno()) > 0
            reader.hand_on(lambda *_: None)

        visit()
        visit()
        with pytest.raises(ConnectionAbortedError):
            visit()
        ours.close()
        theirs.close()

    asyncio.run(work())
