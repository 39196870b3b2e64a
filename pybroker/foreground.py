"""A process in the foreground: its event loop, what makes it stop, its ready line."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterable, Iterator

STOPS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("pybroker.start")


def raise_file_limit() -> None:
    """As many open files as this user may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """uvloop's where it is installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        loop.close()


async def first_of(*events: asyncio.Event) -> None:
    """Waits until one of the events is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def watch_signals(stop: asyncio.Event, at_once: asyncio.Event | None = None) -> None:
    """The first SIGTERM or SIGINT stops in order, the second at once: by ``at_once``, else by exiting."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if not stop.is_set():
            stop.set()
        elif at_once is None:
            os._exit(1)
        else:
            at_once.set()

    for number in STOPS:
        loop.add_signal_handler(number, on_signal)


def watch_owner(stop: asyncio.Event, limit_s: float | None = None) -> None:
    """Stops when stdin ends or the parent is gone: a fork of the parent may hold the other end of
    stdin open. With ``limit_s`` the process is gone so long afterwards, whatever it is doing.
    """
    loop = asyncio.get_running_loop()
    watched = [sys.stdin.fileno()]
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            watched.append(os.pidfd_open(os.getppid()))

    def on_end() -> None:
        for fd in watched:
            loop.remove_reader(fd)
        if limit_s is not None:
            exit_in(limit_s)
        stop.set()

    for fd in watched:
        loop.add_reader(fd, on_end)


def exit_in(limit_s: float) -> None:
    """Ends this process after ``limit_s``, unless it has ended by then."""
    timer = threading.Timer(limit_s, os._exit, (1,))
    timer.daemon = True
    timer.start()


def address_of(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def announce(addresses: Iterable[tuple[str, int]], pids: Iterable[int]) -> None:
    """The ready line."""
    bootstrap = ",".join(address_of(host, port) for host, port in addresses)
    say(f"pybroker ready: bootstrap={bootstrap} pids={','.join(map(str, pids))}")


def say(line: str) -> None:
    """A line to stdout; nobody need be there to read it."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def settle() -> None:
    """From here on the garbage collector looks only at what is made from now on."""
    gc.freeze()
    gc.enable()
