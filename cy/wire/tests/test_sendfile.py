"""Slices of files leave byte for byte; a full socket is no error, a closed one is."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cy.wire.sendfile import FileSlice, sendfile, writev

CONTENT = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    yield left, right
    left.close()
    right.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    result = tmp_path / "content"
    result.write_bytes(CONTENT)
    return result


def drain(part: FileSlice, left: socket.socket, right: socket.socket) -> bytes:
    sent, received = 0, bytearray()
    while len(received) < len(part):
        if sent < len(part):
            sent += max(0, sendfile(left.fileno(), part, sent))
        received += right.recv(1 << 20)
    return bytes(received)


def test_a_slice_arrives_whole_through_a_socket_that_fills_up(
    path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    with path.open("rb") as file:
        part = FileSlice(file, 12_345, 1_500_000)
        assert drain(part, *pair) == part.read() == CONTENT[12_345:1_512_345]


def test_sendfile_to_a_full_socket_returns_minus_one(
    path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, _ = pair
    with path.open("rb") as file:
        part = FileSlice(file, 0, len(CONTENT))
        sent = 0
        while (count := sendfile(left.fileno(), part, sent)) > 0:
            sent += count
        assert count == -1
        assert sent < len(part)
        assert sendfile(left.fileno(), part, sent) == -1
        assert writev(left.fileno(), [b"x"]) == -1


def test_sendfile_returns_0_for_a_sent_slice_or_one_beyond_the_end(
    path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    with path.open("rb") as file:
        assert sendfile(pair[0].fileno(), FileSlice(file, 5, 10), 10) == 0
        assert sendfile(pair[0].fileno(), FileSlice(file, len(CONTENT), 10)) == 0
        with pytest.raises(EOFError, match="ends at"):
            FileSlice(file, len(CONTENT) - 3, 10).read()


def test_sendfile_to_a_closed_peer_is_an_error(path: Path, pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    with path.open("rb") as file, pytest.raises(BrokenPipeError):
        sendfile(pair[0].fileno(), FileSlice(file, 0, 10))
    with pytest.raises(BrokenPipeError):
        writev(pair[0].fileno(), [b"x"])


def test_a_slice_keeps_its_file_open(path: Path) -> None:
    part = FileSlice(path.open("rb"), 3, 4)
    assert part.read() == CONTENT[3:7]
    assert (part.fd, part.position, part.length, len(part)) == (part.file.fileno(), 3, 4, 4)


@pytest.mark.parametrize(("position", "length"), [(-1, 5), (0, -5)])
def test_impossible_slices_are_refused(path: Path, position: int, length: int) -> None:
    with path.open("rb") as file, pytest.raises(ValueError, match="no slice"):
        FileSlice(file, position, length)


@pytest.mark.parametrize("sent", [-1, 11])
def test_a_count_of_sent_bytes_outside_the_slice_is_refused(
    path: Path, pair: tuple[socket.socket, socket.socket], sent: int
) -> None:
    with path.open("rb") as file, pytest.raises(ValueError, match="cannot have been sent"):
        sendfile(pair[0].fileno(), FileSlice(file, 0, 10), sent)


def test_writev_writes_buffers_of_every_type_in_order(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    try:
        assert writev(fd, [b"ab", memoryview(b"xcdx")[1:3], bytearray(b"e"), b""]) == 5
        assert writev(fd, []) == 0
        assert os.pread(fd, 10, 0) == b"abcde"
    finally:
        os.close(fd)


def test_writev_writes_at_most_64_buffers_at_once(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    try:
        assert writev(fd, [b"ab"] * 100) == 128
    finally:
        os.close(fd)


def test_writev_refuses_text_and_writes_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(TypeError):
            writev(fd, [b"ab", "text"])  # type: ignore[list-item]
        assert os.fstat(fd).st_size == 0
    finally:
        os.close(fd)
