"""FrameReader and SendQueue over socket pairs."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cy.wire.frames import AGAIN, STARVED, FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from cy.wire.sendfile import FileSlice

Pair = tuple[socket.socket, socket.socket]
LIMIT = 10 * 1024 * 1024


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def take_all(reader: FrameReader) -> list[bytes]:
    found = []
    while (got := reader.next()) is not None:
        view, start, end = got
        found.append(bytes(view[start:end]))
    return found


def visit(reader: FrameReader, sock: socket.socket) -> list[bytes]:
    """Makes one visit as a connection does, and returns its frames."""
    assert reader.receive(sock.fileno()) > 0
    found = take_all(reader)
    reader.keep()
    return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    near.setblocking(False)
    yield near, far
    near.close()
    far.close()


@pytest.fixture
def reader() -> FrameReader:
    return FrameReader(ReceiveMemory(), LIMIT)


def test_frames_that_arrive_together_are_returned_in_order_from_one_buffer(
    pair: Pair, reader: FrameReader
) -> None:
    near, far = pair
    far.sendall(frame(b"one") + frame(b"") + frame(b"three"))
    assert visit(reader, near) == [b"one", b"", b"three"]
    assert reader.taken == 0


def test_an_idle_connection_holds_no_memory(pair: Pair, reader: FrameReader) -> None:
    near, far = pair
    far.sendall(frame(b"x" * 100)[:50])
    assert visit(reader, near) == []
    assert 0 < reader.taken <= 1024
    far.sendall(frame(b"x" * 100)[50:])
    assert visit(reader, near) == [b"x" * 100]
    assert reader.taken == 0
    assert reader.pending == 0


def test_receive_distinguishes_no_data_from_a_closed_connection(pair: Pair, reader: FrameReader) -> None:
    near, far = pair
    assert reader.receive(near.fileno()) == AGAIN
    far.close()
    assert reader.receive(near.fileno()) == 0


def test_a_reset_connection_raises_as_recv_does(reader: FrameReader) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    far = socket.create_connection(server.getsockname())
    near, _ = server.accept()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    with pytest.raises(ConnectionResetError):
        reader.receive(near.fileno())
    near.close()
    server.close()


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_case_45_impossible_length_is_refused_and_allocates_nothing(
    pair: Pair, length: int
) -> None:
    near, far = pair
    memory = ReceiveMemory()
    reader = FrameReader(memory, LIMIT)
    far.sendall(struct.pack(">i", length) + b"abcdefgh")
    assert reader.receive(near.fileno()) > 0
    with pytest.raises(FrameError) as caught:
        reader.next()
    assert caught.value.prefix == struct.pack(">i", length) + b"abcd"
    assert memory.taken == 0


def test_case_46_memory_grows_with_the_bytes_that_arrived(pair: Pair, reader: FrameReader) -> None:
    near, far = pair
    far.sendall(struct.pack(">i", LIMIT) + b"xy")
    assert visit(reader, near) == []
    assert reader.taken <= 1024
    arrived = 6
    for _ in range(40):
        far.sendall(b"z" * 3_000)
        arrived += 3_000
        while reader.receive(near.fileno()) > 0:
            assert take_all(reader) == []
            reader.keep()
        assert reader.taken <= 2 * arrived + 64 * 1024


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01"])
def test_case_58_other_protocols_are_recognised_whatever_the_limit_is(
    pair: Pair, first: bytes
) -> None:
    near, far = pair
    reader = FrameReader(ReceiveMemory(), 2**31 - 1)
    far.sendall(first)
    assert reader.receive(near.fileno()) > 0
    with pytest.raises(FrameError) as caught:
        reader.next()
    assert caught.value.prefix == first[:8]


def test_a_large_frame_and_the_next_ones_are_returned_whole(pair: Pair, reader: FrameReader) -> None:
    near, far = pair
    bodies = [os.urandom(300_000), b"small", os.urandom(70_000), b"last"]
    data = b"".join(map(frame, bodies))
    found = []
    for at in range(0, len(data), 50_000):
        far.sendall(data[at : at + 50_000])
        while reader.receive(near.fileno()) > 0:
            found += take_all(reader)
            reader.keep()
    assert found == bodies
    assert reader.taken == 0


def test_memory_blocks_of_large_frames_are_reused(pair: Pair) -> None:
    near, far = pair
    memory = ReceiveMemory(scratch_size=8192)
    reader = FrameReader(memory, LIMIT)
    for _ in range(3):
        body = os.urandom(150_000)
        data, found = frame(body), []
        for at in range(0, len(data), 20_000):
            far.sendall(data[at : at + 20_000])
            while reader.receive(near.fileno()) > 0:
                found += take_all(reader)
                reader.keep()
        assert found == [body]
        assert memory.taken == 0
    assert 150_000 < memory.pooled < 600_000
    memory.trim()
    assert memory.pooled == 0


def test_a_block_is_not_reused_while_a_view_of_it_exists(pair: Pair) -> None:
    near, far = pair
    memory = ReceiveMemory(scratch_size=1024)
    reader = FrameReader(memory, LIMIT)
    kept, data = [], frame(b"a" * 70_000) + frame(b"b" * 70_000)
    for at in range(0, len(data), 10_000):
        far.sendall(data[at : at + 10_000])
        while reader.receive(near.fileno()) > 0:
            while (got := reader.next()) is not None:
                kept.append(got[0][got[1] : got[2]])
            reader.keep()
    assert bytes(kept[0]) == b"a" * 70_000
    assert bytes(kept[1]) == b"b" * 70_000


def test_frames_that_were_not_taken_stay_in_the_reader(pair: Pair, reader: FrameReader) -> None:
    near, far = pair
    far.sendall(b"".join(frame(b"%d" % number) for number in range(10)) + b"\0\0")
    assert reader.receive(near.fileno()) > 0
    view, start, end = reader.next() or pytest.fail("no frame")
    assert bytes(view[start:end]) == b"0"
    reader.keep()
    assert reader.pending == 9 * 5 + 2
    other_near, other_far = socket.socketpair()
    other_far.sendall(frame(b"overwrites the shared buffer" * 3))
    other = FrameReader(ReceiveMemory(), LIMIT)
    assert len(visit(other, other_near)) == 1
    assert take_all(reader) == [b"%d" % number for number in range(1, 10)]
    reader.keep()
    far.sendall(b"\0\1z")
    assert visit(reader, near) == [b"z"]
    other_near.close()
    other_far.close()


def test_a_connection_keeps_little_once_memory_is_at_its_limit() -> None:
    memory = ReceiveMemory(100_000)
    part = struct.pack(">i", LIMIT) + bytes(60_000)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            near, far = [stack.enter_context(each) for each in socket.socketpair()]
            far.sendall(part)
            assert visit(FrameReader(memory, LIMIT), near) == []
    assert memory.taken == 2 * len(part) + 2 * 4096


def test_memory_at_its_limit_starves_the_reader_until_some_is_free() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    memory = ReceiveMemory(2_000, scratch_size=1_000)
    reader = FrameReader(memory, LIMIT)
    data = frame(b"q" * 5_000)
    far.sendall(data)
    for _ in range(4):
        count = reader.receive(near.fileno())
        if count == STARVED:
            break
        assert reader.next() is None
        reader.keep()
    assert count == STARVED
    memory.limit = 100_000
    found: list[bytes] = []
    while not found and reader.receive(near.fileno()) > 0:
        found = take_all(reader)
        reader.keep()
    assert found == [b"q" * 5_000]
    near.close()
    far.close()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 3_000) | st.integers(60_000, 70_000), max_size=12),
    st.lists(st.integers(1, 40_000), min_size=1, max_size=8),
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
)
def test_any_split_of_the_stream_yields_the_same_frames(
    sizes: list[int], cuts: list[int], paces: list[int]
) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    memory = ReceiveMemory(scratch_size=10_000)
    reader = FrameReader(memory, LIMIT)
    bodies = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    data, found, step = b"".join(map(frame, bodies)), [], 0
    cuts.append(40_000)
    while data or len(found) < len(bodies):
        step += 1
        with contextlib.suppress(BlockingIOError):  # full: many small pieces cost much room
            data = data[far.send(data[: cuts[step % len(cuts)]]) :]
        received = reader.receive(near.fileno())
        stopped = True
        while received > 0 and stopped:
            stopped = False
            for _ in range(paces[step % len(paces)] or 1_000):
                got = reader.next()
                if got is None:
                    break
                found.append(bytes(got[0][got[1] : got[2]]))
            else:
                stopped = True
            reader.keep()
    assert found == bodies
    assert memory.taken == 0
    near.close()
    far.close()


# -- SendQueue -------------------------------------------------------------------------------------


def read_all(far: socket.socket, near: socket.socket, queue: SendQueue) -> bytes:
    far.setblocking(False)
    received = b""
    while True:
        done = queue.flush(near.fileno())
        while True:
            try:
                received += far.recv(1 << 20)
            except BlockingIOError:
                break
        if done:
            return received


@pytest.fixture
def slices() -> Iterator[tuple[bytes, FileSlice]]:
    with tempfile.TemporaryFile() as file:
        content = os.urandom(700_000)
        file.write(content)
        file.flush()
        yield content[1_000:600_000], FileSlice(file, 1_000, 599_000)


def test_bytes_and_file_slices_are_sent_in_order(pair: Pair, slices: tuple[bytes, FileSlice]) -> None:
    near, far = pair
    content, part = slices
    queue = SendQueue()
    queue.append(b"first")
    queue.append([b"header", part, b"", part, b"trailer"])
    queue.append(b"last")
    assert queue.unsent == len(b"firstheadertrailerlast") + 2 * len(content)
    assert read_all(far, near, queue) == b"firstheader" + content * 2 + b"trailerlast"
    assert queue.unsent == 0


def test_many_responses_are_sent_in_order(pair: Pair) -> None:
    near, far = pair
    queue = SendQueue()
    parts = [b"%06d" % number * (number % 7) for number in range(3_000)]
    for part in parts:
        queue.append(part)
    assert read_all(far, near, queue) == b"".join(parts)


def test_unsent_bytes_are_counted_until_the_socket_accepts_them(pair: Pair) -> None:
    near, _ = pair
    queue = SendQueue()
    queue.append(b"x" * 5_000_000)
    assert not queue.flush(near.fileno())
    assert 0 < queue.unsent < 5_000_000
    queue.close()
    assert queue.unsent == 0
    assert queue.flush(near.fileno())


def test_sending_to_a_closed_peer_raises_and_does_not_kill_the_process(pair: Pair) -> None:
    near, far = pair
    far.close()
    queue = SendQueue()
    queue.append(b"x")
    with pytest.raises(BrokenPipeError):
        queue.flush(near.fileno())


def test_a_file_shorter_than_its_slice_is_an_error(pair: Pair) -> None:
    near, _ = pair
    with tempfile.TemporaryFile() as file:
        file.write(b"short")
        file.flush()
        queue = SendQueue()
        queue.append([b"head", FileSlice(file, 0, 100)])
        with pytest.raises(EOFError):
            queue.flush(near.fileno())
