"""A process in the foreground: its event loop, the events that stop it, its ready line."""

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
from collections.abc import Callable, Iterable, Iterator

from cy import heap

FULL_COLLECTIONS = 100
"""How many collections of the middle generation there are per full one; Python's default is 10. The middle generation
is collected once per 700,000 new objects.
"""
LARGE_BLOCK = 4 << 20
"""An allocation of at least so many bytes returns its memory to the system when it is freed."""
PARENT = os.getppid()
"""The process that has started this one."""
PR_SET_PDEATHSIG = 1
"""The number of an option of ``prctl``, from Linux's ``sys/prctl.h``."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

logger = logging.getLogger("pybroker.start")


def raise_file_limit() -> None:
    """Raises the limit of open files as far as this user may raise it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Provides uvloop's loop if it is installed, else asyncio's."""
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
    """Handles SIGTERM, SIGINT and SIGHUP (a closed terminal): the first one stops in order, the second at once.

    The second one sets ``at_once``; if that is None, it ends the process. An ignored SIGHUP (``nohup``) stays ignored.
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


def watch_owner(stop: asyncio.Event, limit_s: float | None = None, heed: Callable[[str], None] | None = None) -> None:
    """Sets ``stop`` when stdin ends or the parent process has ended. It checks both, because a fork of the parent may
    keep the other end of stdin open.

    With ``limit_s``, the process exits so many seconds later even if it has not stopped: a thread watches, because the
    loop may hang. ``heed`` is called on the loop with each line of stdin.
    """
    go_on_without_parent()
    loop = asyncio.get_running_loop()
    stdin, parent = sys.stdin.fileno(), None
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            parent = os.pidfd_open(os.getppid())

    def watch() -> None:
        for line in _lines(stdin, parent):
            if heed is not None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(heed, line)
        if limit_s is not None:
            exit_in(limit_s)
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="owner-watch", daemon=True).start()


def go_on_without_parent() -> None:
    """Lets Linux send this process SIGCONT when its parent ends, because a suspended process could not end with its
    parent.

    The signal also comes if only the thread that has started this process ends.
    """
    if sys.platform == "linux":
        import ctypes  # the import takes 2 ms, which a broker without an owner saves

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def _lines(fd: int, process: int | None) -> Iterator[str]:
    """Yields lines until the input ends, or the process of the pidfd ``process`` ends."""
    poll = select.poll()
    for each in (fd, process):
        if each is not None:
            poll.register(each, select.POLLIN)
    rest = b""
    while process not in {each for each, _ in poll.poll()}:
        data = os.read(fd, 4096)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def has_owner() -> bool:
    """Returns whether the parent exists and has the other end of stdin open. Reads no input."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN)
    return os.getppid() == PARENT and not poll.poll(0)


def exit_in(limit_s: float) -> None:
    """Ends this process after ``limit_s``, unless it has ended by then."""
    timer = threading.Timer(limit_s, os._exit, (1,))
    timer.daemon = True
    timer.start()


def address_of(host: str, port: int) -> str:
    """Returns ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def announce(addresses: Iterable[tuple[str, int]], pids: Iterable[int]) -> None:
    """Prints the ready line."""
    bootstrap = ",".join(address_of(host, port) for host, port in addresses)
    say(f"pybroker ready: bootstrap={bootstrap} pids={','.join(map(str, pids))}")


def say(line: str) -> None:
    """Writes a line to stdout, even if it has no reader."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def settle() -> None:
    """Lets the garbage collector ignore the existing objects from now on, and run full collections seldom.

    A collection of a million objects blocks the event loop for 100 ms. It also returns the memory of large blocks to
    the system.
    """
    heap.return_blocks(LARGE_BLOCK)
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_COLLECTIONS)
    gc.enable()
