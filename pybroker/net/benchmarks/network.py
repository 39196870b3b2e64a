"""The cost of the network alone: CPU per small request, memory per idle connection.

    python -m pybroker.net.benchmarks.network [--requests 200000] [--pipelined 5] [--idle 15000]

The server runs in a process of its own and answers Heartbeat (v4) with a constant.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import socket
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from types import SimpleNamespace

import uvloop

from pybroker.config import Endpoint
from pybroker.net.acceptor import bind
from pybroker.net.limits import Limits
from pybroker.net.routes import Routes
from pybroker.net.server import SocketServer
from pyclient.protocol import Heartbeat

VERSION = 4


def serve(pipe: Pipe) -> None:
    """Runs the server: sends its port, and ends when the pipe closes."""
    loop = uvloop.new_event_loop()
    response = Heartbeat.Response()
    row = SimpleNamespace(api=Heartbeat, handle=lambda request, call: response, most_units=1000)

    def make_call(version: int, client_id: str | None, connection: object, api: str) -> SimpleNamespace:
        return SimpleNamespace(version=version, client_id=client_id, connection=connection, api=api)

    server = SocketServer(Routes([row], make_call, lambda _: b""), Limits(), loop)
    listener = bind(Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0))
    server.start([listener])
    pipe.send(listener.endpoint.port)
    loop.add_reader(pipe.fileno(), loop.stop)
    loop.run_forever()


def encoded(number: int) -> bytes:
    """Returns an encoded request."""
    request = Heartbeat.Request(group_id="group", generation_id=1, member_id="member-1")
    return joined(Heartbeat.encode_request(VERSION, number, "bench", request))


def joined(frame: object) -> bytes:
    """Returns a frame without file slices as bytes."""
    assert isinstance(frame, bytes)
    return frame


def cpu_s(pid: int) -> float:
    """Returns the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_kib(pid: int) -> int:
    """Returns the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def request_cost(port: int, pid: int, requests: int, pipelined: int) -> tuple[float, float]:
    """Returns the server's CPU microseconds per request, and the requests per second."""
    frames = b"".join(map(encoded, range(pipelined)))
    loop = asyncio.new_event_loop()
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reply = joined(Heartbeat.encode_response(VERSION, 0, Heartbeat.Response()))
        size = pipelined * len(reply)
        before, began = cpu_s(pid), loop.time()
        for _ in range(requests // pipelined):
            sock.sendall(frames)
            left = size
            while left:
                left -= len(sock.recv(left))
        return (cpu_s(pid) - before) * 1e6 / requests, requests / (loop.time() - began)


def idle_cost(port: int, pid: int, connections: int) -> float:
    """Returns the server's memory in KiB per idle connection that has sent one request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    request = encoded(1)
    before, sockets = rss_kib(pid), []
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(request)
        sock.recv(100)
        sockets.append(sock)
    cost = (rss_kib(pid) - before) / connections
    for sock in sockets:
        sock.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return cost


def main() -> None:
    """Runs both measurements of the network path and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--pipelined", type=int, default=5)
    parser.add_argument("--idle", type=int, default=15_000)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    theirs.close()
    port, pid = ours.recv(), process.pid or 0
    for pipelined in dict.fromkeys((1, options.pipelined)):
        micros, rate = request_cost(port, pid, options.requests, pipelined)
        print(f"{pipelined} in flight: {micros:.2f} us CPU a request, {rate:,.0f} requests/s")
    print(f"{idle_cost(port, pid, options.idle):.2f} KiB a connection, {options.idle} idle")
    ours.close()
    process.join()


if __name__ == "__main__":
    main()
