"""An HTTP answer that never ends is cut off by the timeout."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator

import pytest

from pyclient.security import http_call

ENDLESS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"x" * 60_000 + b"\r\n"),
    "promises": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}
PATIENCE_S = 60.0
READ_S = 100.0


@pytest.fixture
def endless(request: pytest.FixtureRequest) -> Iterator[str]:
    """Starts a server whose answer never ends. Returns its URL."""
    begin, again = request.param

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(10_000)
            try:
                peer.sendall(begin)
                while True:
                    peer.sendall(again)
            except OSError:
                return  # the client has gone

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/keys"
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("endless", ENDLESS.values(), ids=ENDLESS, indirect=True)
def test_an_http_answer_that_does_not_end_in_time_raises_timeout_error(endless: str) -> None:
    url = http_call.parse(endless)
    assert url is not None
    clock = itertools.count(0.0, READ_S / 5).__next__  # each look at it takes long
    with pytest.raises(TimeoutError):
        http_call.ask(url, {}, connect_s=PATIENCE_S, read_s=READ_S, time_s=clock)
