"""FrameReader and SendQueue where a layer that decrypts and encrypts stands between them and the socket."""

from __future__ import annotations

import struct
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.wire.frames import AGAIN, STARVED, FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from cy.wire.sendfile import FileSlice

LIMIT = 10 * 1024 * 1024
END = b""


class Layer:
    """Passes on its bytes, at most ``most`` per call, like the records of TLS."""

    def __init__(self, most: int) -> None:
        self.left = b""
        self.ended = self.stopped = False
        self.incoming = self
        self._most = most

    @property
    def pending(self) -> int:
        return len(self.left)

    def feed_next(self, count: int) -> None: ...

    def cannot_read(self, error: Exception) -> None: ...

    def end_reading(self) -> None:
        self.stopped = True

    def read(self, size: int, view: memoryview) -> int:
        piece = self.left[: min(size, self._most)]
        view[: len(piece)] = piece
        self.left = self.left[len(piece) :]
        return len(piece) or (0 if self.ended else AGAIN)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def visit(reader: FrameReader, layer: Layer) -> list[bytes]:
    """Makes one visit as a connection does, and returns its frames."""
    found = []
    if reader.receive_by(layer) > 0:
        while (got := reader.next()) is not None:
            view, start, end = got
            found.append(bytes(view[start:end]))
        reader.keep()
    return found


@given(
    bodies=st.lists(st.integers(0, 3000) | st.integers(0, 150_000), max_size=6),
    cuts=st.lists(st.integers(1, 60_000), max_size=12),
    most=st.integers(500, 20_000),
)
def test_frames_are_returned_whole_however_records_split_them(bodies: list[int], cuts: list[int], most: int) -> None:
    wanted = [bytes([number]) * size for number, size in enumerate(bodies)]
    stream = b"".join(map(frame, wanted))
    memory = ReceiveMemory()
    reader, layer = FrameReader(memory, LIMIT), Layer(most)
    found = []
    for cut in [*cuts, *[65_536] * 20]:
        layer.left, stream = stream[:cut], stream[cut:]
        found += visit(reader, layer)
        assert not layer.left
    assert found == wanted
    assert memory.taken == 0


def test_a_layer_reports_end_and_no_data_like_a_socket() -> None:
    reader, layer = FrameReader(ReceiveMemory(), LIMIT), Layer(100)
    assert reader.receive_by(layer) == AGAIN
    layer.left, layer.ended = frame(b"last"), True
    assert visit(reader, layer) == [b"last"]
    assert reader.receive_by(layer) == 0


def test_a_layer_learns_that_its_end_followed_data() -> None:
    reader, layer = FrameReader(ReceiveMemory(), LIMIT), Layer(100)
    layer.left, layer.ended = frame(b"last"), True
    assert visit(reader, layer) == [b"last"]
    assert layer.stopped


def test_a_layer_cannot_write_beyond_scratch() -> None:
    reader, layer = FrameReader(ReceiveMemory(scratch_size=8000), LIMIT), Layer(16_384)
    layer.left = frame(b"x" * 100) * 100
    with pytest.raises(RuntimeError, match="more than scratch can hold"):
        reader.receive_by(layer)


def test_unread_data_stays_in_the_layer_at_the_memory_limit() -> None:
    memory = ReceiveMemory(1024)
    reader, layer = FrameReader(memory, LIMIT), Layer(16_384)
    body = frame(b"x" * 50_000)
    layer.left = body[:600]
    assert visit(reader, layer) == []
    layer.left = body[600:]
    assert reader.receive_by(layer) == STARVED
    assert layer.left
    memory.limit = LIMIT
    assert visit(reader, layer) == [b"x" * 50_000]


def test_an_impossible_length_in_several_parts_is_refused() -> None:
    reader, layer = FrameReader(ReceiveMemory(), LIMIT), Layer(2)
    layer.left = struct.pack(">i", -1)[:2]
    visit(reader, layer)
    layer.left = struct.pack(">i", -1)[2:] + b"more"
    with pytest.raises(FrameError):
        visit(reader, layer)


def test_data_to_send_is_read_in_pieces_of_limited_size() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(200)) * 5)
        file.flush()
        queue = SendQueue()
        queue.append([b"head", FileSlice(file, 100, 300), b"", b"tail"])
        sent = b""
        while piece := queue.peek(64):
            assert len(piece) <= 64
            sent += piece
            assert queue.drop(len(piece)) is (queue.unsent == 0)
        assert sent == b"head" + (bytes(range(200)) * 5)[100:400] + b"tail"
        assert queue.drop(0)
        assert queue.gone == len(sent)


def test_a_file_that_is_too_short_is_an_error() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"short")
        file.flush()
        queue = SendQueue()
        queue.append([FileSlice(file, 0, 10)])
        with pytest.raises(EOFError, match="file ended at 5 of 10"):
            queue.peek(100)
