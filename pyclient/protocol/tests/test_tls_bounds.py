"""Limits on what a TLS peer can cost: memory, and bytes that yield no data."""

from __future__ import annotations

import contextlib
import gc
import select
import socket
import ssl
import struct
import weakref

import pytest

from cy.wire.frames import AGAIN, STARVED, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from pyclient.protocol import tls
from pyclient.protocol.tests.test_tls import contexts

MOST = 1 << 20
LENGTH = struct.pack(">i", MOST)
"""The size of a frame that the test never completes."""


class FakeSsl:
    """Takes all bytes, and makes data of some of each thousand."""

    def __init__(self, incoming, outgoing, yields=0):
        self.incoming, self.outgoing = incoming, outgoing
        self.yields = yields
        self.answers = 0
        self.error = None
        self.left = 0
        self.got = []
        self.written = []

    def read(self, size, view):
        if self.error is not None:
            raise ssl.SSLError(self.error)
        data = self.incoming.read()
        if data:
            self.outgoing.write(bytes(self.answers))
            self.got.append(len(data))
            self.left += len(data) * self.yields // 1000
        count = min(size, self.left)
        if not count:
            raise ssl.SSLWantReadError
        start = LENGTH if len(self.got) == 1 and data else b""
        view.cast("B")[:count] = start + bytes(count - len(start))
        self.left -= count
        return count

    def write(self, data):
        self.written.append(len(data))
        self.outgoing.write(data)
        return len(data)

    def pending(self):
        return 0


@contextlib.contextmanager
def sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for each in (ours, theirs):
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MOST)
        yield ours, theirs


def layer(sock, yields=0):
    memory = memoryview(bytearray(tls.MEMORY))
    return tls.TlsLayer(sock, memory, lambda incoming, outgoing: FakeSsl(incoming, outgoing, yields))


def sent(sock, data):
    with contextlib.suppress(BlockingIOError):
        return sock.send(data)
    return 0


def visits(end, reader, ours, theirs, count):
    """Returns the bytes taken in each of ``count`` visits, while the peer always has more to send."""
    each = []
    for _ in range(count):
        while sent(theirs, bytes(tls.RECORD_BYTES)):
            pass
        before = sum(end.ssl.got)
        end.receive(reader, ours.fileno())
        reader.keep()
        each.append(sum(end.ssl.got) - before)
    return each


def test_a_peer_whose_bytes_yield_no_data_gets_little_time_and_is_dropped():
    with sockets() as (ours, theirs):
        end, reader = layer(ours), FrameReader(ReceiveMemory(), MOST)
        allowed = tls.MOST_WITHOUT_DATA // tls.LITTLE
        assert visits(end, reader, ours, theirs, allowed) == [tls.LITTLE] * allowed
        with pytest.raises(ConnectionAbortedError):
            visits(end, reader, ours, theirs, 1)


def test_bytes_that_yield_data_are_decrypted_in_pieces():
    with sockets() as (ours, theirs):
        end, reader = layer(ours, yields=900), FrameReader(ReceiveMemory(), MOST)
        first, *others = visits(end, reader, ours, theirs, 4)
        assert first == tls.LITTLE
        assert others == [tls.MEMORY] * 3
        assert max(end.ssl.got) <= tls.WHOLE_RECORD
        reader.close()


def test_bytes_without_data_are_limited_within_a_visit_too():
    with sockets() as (ours, theirs):
        end, reader = layer(ours, yields=900), FrameReader(ReceiveMemory(), MOST)
        visits(end, reader, ours, theirs, 3)
        before, end.ssl.yields = sum(end.ssl.got), 0
        with pytest.raises(ConnectionAbortedError, match="without data"):
            visits(end, reader, ours, theirs, 1)
        assert sum(end.ssl.got) - before <= tls.MOST_WITHOUT_DATA
        reader.close()


def test_answers_to_key_updates_are_limited_within_a_visit():
    with sockets() as (ours, theirs):
        end, reader = layer(ours), FrameReader(ReceiveMemory(), MOST)
        end.ssl.answers = tls.MOST_UNASKED + 1
        with pytest.raises(ConnectionAbortedError, match="key updates"):
            visits(end, reader, ours, theirs, 1)
        assert len(end.ssl.got) == 1


def test_little_is_received_at_the_memory_limit():
    with sockets() as (ours, theirs):
        end, reader = layer(ours), FrameReader(ReceiveMemory(0), MOST)
        assert visits(end, reader, ours, theirs, 1) == [tls.LEAST]


def test_an_error_of_tls_leaves_no_reference_cycle():
    with sockets() as (ours, theirs):
        end, reader = layer(ours), FrameReader(ReceiveMemory(), MOST)
        end.ssl.error = "bad record"
        broken = weakref.ref(end.ssl)
        theirs.send(b"garbage")
        gc.disable()
        try:
            with contextlib.suppress(ssl.SSLError):
                end.receive(reader, ours.fileno())
            del end
            assert broken() is None
        finally:
            gc.enable()


def test_the_end_of_tls_after_data_makes_the_socket_readable():
    with sockets() as (ours, theirs):
        here, there = shaken_hands(ours, theirs)
        reader = FrameReader(ReceiveMemory(), MOST)
        say(there, theirs.fileno(), struct.pack(">i", 4) + b"last")
        there.end()
        assert here.receive(reader, ours.fileno()) > 0
        assert frames_of(reader) == [b"last"]
        assert select.select([ours], [], [], 0)[0]
        assert here.receive(reader, ours.fileno()) == 0


def test_data_is_encrypted_in_pieces():
    with sockets() as (ours, theirs):
        end, queue = layer(ours), SendQueue()
        queue.append(bytes(3 * tls.PIECE))
        while not end.flush(queue, ours.fileno()):
            theirs.recv(MOST)
        assert max(end.ssl.written) == tls.RECORD_BYTES
        assert sum(end.ssl.written) == 3 * tls.PIECE


def shaken_hands(ours, theirs):
    server, client = contexts()
    memory = memoryview(bytearray(tls.MEMORY))
    here = tls.TlsLayer(ours, memory, lambda *pair: server.wrap_bio(*pair, server_side=True))
    there = tls.TlsLayer(theirs, memory, lambda *pair: client.wrap_bio(*pair, server_hostname="localhost"))
    open_ends = [there, here]
    while open_ends:
        for end in tuple(open_ends):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.pull()
                end.ssl.do_handshake()
                open_ends.remove(end)
            end.push()
    return here, there


def say(end, fd, data):
    queue = SendQueue()
    queue.append(data)
    assert end.flush(queue, fd)


def frames_of(reader):
    found = []
    reader.hand_on(lambda view, start, end, _: found.append(bytes(view[start:end])))
    return found


@pytest.mark.parametrize(("size", "limit"), [(12_000, 14_000), (100_000, 150_000)])
def test_data_received_without_memory_is_delivered_once_memory_is_free(size, limit):
    body = bytes(range(250)) * (size // 250)
    with sockets() as (ours, theirs), sockets() as (hog_end, other):
        here, there = shaken_hands(ours, theirs)
        memory = ReceiveMemory(limit)
        reader, hog = FrameReader(memory, MOST), FrameReader(memory, MOST)
        other.send(struct.pack(">i", limit // 2) + bytes(limit // 2 - 1000))
        hog.receive(hog_end.fileno())
        hog.keep()
        say(there, theirs.fileno(), struct.pack(">i", size) + body[:3000])
        assert here.receive(reader, ours.fileno()) > 0
        assert frames_of(reader) == []
        say(there, theirs.fileno(), body[3000:])
        while (count := here.receive(reader, ours.fileno())) != STARVED:
            assert count > 0
            reader.keep()
        hog.close()
        found = []
        while (count := here.receive(reader, ours.fileno())) != AGAIN:
            assert count > 0
            found += frames_of(reader)
        assert found == [body]
        reader.close()
