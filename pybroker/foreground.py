"""A process in the foreground: its event loop, what makes it stop, its ready line."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator

from cy import heap

FULL_COLLECTIONS = 100
"""One for so many of the middle generation, which is one for 700,000 more objects; Python's default is 10."""
LARGE_BLOCK = 4 << 20
"""Bytes: what takes so much memory at once gives it back to the system when it is done."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

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
    """The first SIGTERM, SIGINT or SIGHUP (a terminal that was closed) stops in order, the second at once: by
    ``at_once``, else by exiting. A SIGHUP that is ignored (``nohup``) stays so.
    """
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if not stop.is_set():
            stop.set()
        elif at_once is None:
            os._exit(1)
        else:
            at_once.set()

    for number in STOPS:
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        loop.add_signal_handler(number, on_signal)


def watch_owner(stop: asyncio.Event, limit_s: float | None = None) -> None:
    """Stops when stdin ends or the parent is gone: a fork of the parent may hold the other end of
    stdin open. With ``limit_s`` the process is gone so long afterwards, whatever it is doing: a
    thread watches, as the loop may hang.
    """
    loop = asyncio.get_running_loop()
    watched = [sys.stdin.fileno()]
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            watched.append(os.pidfd_open(os.getppid()))

    def watch() -> None:
        _wait_for_any(watched)
        if limit_s is not None:
            exit_in(limit_s)
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="owner-watch", daemon=True).start()


def _wait_for_any(fds: Iterable[int]) -> None:
    """Until one of them can be read, or has ended."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    poll.poll()


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
    """From here on the garbage collector looks only at what is made from now on, and seldom at all of it: a look at a
    million objects holds the event loop for 100 ms. And memory of large blocks is not kept.
    """
    heap.return_blocks(LARGE_BLOCK)
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_COLLECTIONS)
    gc.enable()
