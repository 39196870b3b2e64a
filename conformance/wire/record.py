"""Renews the golden files: ``python -m conformance.wire.record [client]…``.

It starts a real Kafka behind a proxy that keeps the traffic, and lets each client do its usual work. Then it writes the
last exchange of every used API and version. Nothing here knows the protocol beyond the first twelve bytes of a request.
"""

from __future__ import annotations

import contextlib
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from conformance.wire import clients
from harness import peers
from harness.protocol.golden_frames import GOLDEN, Exchange, write
from harness.servers.brokers import RealKafka

LARGEST = 6_000  # Bytes; larger answers, such as all configs, show nothing new.


class Recorder:
    """Records through a proxy in front of a broker; keeps the last exchange of every API and version."""

    def __init__(self, names: dict[int, str]) -> None:
        self.broker_port = 0
        self.names = names
        self.exchanges: dict[tuple[int, int, bool], Exchange] = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            broker = socket.create_connection(("127.0.0.1", self.broker_port))
            waiting: dict[bytes, bytes] = {}
            self._relay(client, broker, partial(self._request, waiting=waiting))
            self._relay(broker, client, partial(self._response, waiting=waiting))

    def _relay(
        self, source: socket.socket, target: socket.socket, note: Callable[[bytes], None]
    ) -> None:
        def run() -> None:
            with source, target, source.makefile("rb") as stream:
                while head := stream.read(4):
                    frame = head + stream.read(int.from_bytes(head, "big"))
                    note(frame)
                    target.sendall(frame)

        threading.Thread(target=_quietly, args=(run,), daemon=True).start()

    def _request(self, frame: bytes, waiting: dict[bytes, bytes]) -> None:
        key = int.from_bytes(frame[4:6], "big")
        if key == 0 and self._wants_no_answer(frame):
            self._keep(frame, b"")
        else:
            waiting[frame[8:12]] = frame

    def _wants_no_answer(self, frame: bytes) -> bool:
        """Recognises Produce with acks=0, up to version 8 (no current client sends it in later ones)."""
        acks_at = 14 + int.from_bytes(frame[12:14], "big") + 2
        return int.from_bytes(frame[6:8], "big") < 9 and frame[acks_at : acks_at + 2] == b"\0\0"

    def _response(self, frame: bytes, waiting: dict[bytes, bytes]) -> None:
        self._keep(waiting.pop(frame[4:8]), frame)

    def _keep(self, request: bytes, response: bytes) -> None:
        key, version = int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")
        if max(len(request), len(response)) <= LARGEST:
            title = f"{self.names.get(key, f'api {key}')} {version}"
            self.exchanges[key, version, bool(response)] = Exchange(title, request, response)


def _quietly(run: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):  # Either side closed the connection.
        run()


_ROW = re.compile(r">(\w+)</a></td><td>(\d+)</td>")


def _api_names() -> dict[int, str]:
    """Returns the names of the API keys, from the page that Kafka's own class prints."""
    page = peers.Java()("org.apache.kafka.common.protocol.ApiKeys")
    return {int(key): name for name, key in _ROW.findall(page)}


def record(name: str, work: Callable[[str], None], names: dict[int, str]) -> None:
    """Lets one client work against a fresh Kafka and writes its golden file."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(names)
        listeners = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{recorder.port}"}
        with RealKafka(Path(folder) / "kafka", **listeners, **clients.QUICK_GROUPS) as broker:
            recorder.broker_port = broker.port
            work(f"127.0.0.1:{recorder.port}")
        write(GOLDEN / f"{name}.txt", recorder.exchanges.values())
        print(f"{name}: {len(recorder.exchanges)} exchanges")


def main() -> None:
    wanted = sys.argv[1:] or list(clients.CLIENTS)
    names = _api_names()
    GOLDEN.mkdir(exist_ok=True)
    for name in wanted:
        record(name, clients.CLIENTS[name], names)


if __name__ == "__main__":
    main()
