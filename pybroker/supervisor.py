"""Runs a broker in the foreground: from options to exit code.

    0  stopped by SIGTERM or SIGINT (or, embedded, by its owner)
    1  failed while it ran; the log tells why
    2  misused: an unknown key, a bad value, a folder in use or of somebody else, a taken port;
       one line on stderr tells which

The ready line is the only thing on stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pybroker import data_folder, diagnostics
from pybroker.config import BrokerConfig, ConfigError, Endpoint, listeners, unknown_variables
from pybroker.data_folder import DataFolder, FolderInUse, Locks
from pybroker.server import Broker, StartError

STOPS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("pybroker.start")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The command line of ``start``."""

    settings: tuple[str, ...] = ()
    file: str | None = None
    data_dir: str | None = None
    host: str | None = None
    port: int | None = None
    node_id: int | None = None
    processes: int = 1
    zookeeper: str | None = None
    log_level: str = "info"
    embedded: bool = False
    """Stop also when stdin ends or the parent process does."""
    temporary: bool = False
    """Remove the data folder at the end."""


def run(options: StartOptions) -> int:
    """Runs a broker until it is told to stop; returns the exit code."""
    diagnostics.set_up(options.log_level)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        config = configure(options)
        folder = data_folder.plan(options.data_dir, config["node.id"], config.log_dirs)
        with claimed(folder, options.temporary), event_loop() as loop:
            return loop.run_until_complete(serve(config, folder, options.embedded))
    except (ConfigError, FolderInUse, StartError) as error:
        print(f"pybroker: {error}", file=sys.stderr)
        return 2


def configure(options: StartOptions) -> BrokerConfig:
    """The configuration that the options, the environment and the file make. Raises ConfigError."""
    if options.processes > 1:
        raise ConfigError("--processes above 1 is not there yet: start it with --processes 1")
    for line in unknown_variables(os.environ):
        logger.warning("%s", line)
    source = "an argument of pybroker.run()" if options.embedded else "--set"
    given = BrokerConfig.load(options.settings, file=options.file, source=source)
    if options.zookeeper or given["zookeeper.connect"]:
        raise ConfigError("ZooKeeper is not there yet: leave --zookeeper (zookeeper.connect) out")
    chosen = list(options.settings)
    node_id = given.node_id if options.node_id is None else options.node_id
    chosen.append(f"node.id={1 if node_id is None else node_id}")
    chosen.append(f"listeners={choose_listeners(given, options.host, options.port)}")
    return BrokerConfig.load(chosen, file=options.file)


def choose_listeners(given: BrokerConfig, host: str | None, port: int | None) -> str:
    """The value of ``listeners``: as configured, unless an option says otherwise."""
    configured = any(given.is_set(name) for name in ("listeners", "host.name", "port"))
    present = listeners(given) if configured else ()
    if present and host is None and port is None:
        return ",".join(map(str, present))
    first = present[0] if present else Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
    return str(
        first._replace(
            host=first.host if host is None else host.strip("[]"),
            port=first.port if port is None else port,
        )
    )


def address_of(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def claimed(folder: DataFolder, temporary: bool) -> Iterator[None]:
    """Holds the data folder for this process. Raises FolderInUse, StartError."""
    locks = Locks()
    try:
        claim(folder, locks)
        folder.write_pid()
    except OSError as error:
        raise StartError(
            f"data folder {error.filename or folder.root}: {error.strerror}: "
            "choose another --data-dir"
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.remove_pid()
        if temporary:
            shutil.rmtree(folder.root, ignore_errors=True)
        locks.release()


def claim(folder: DataFolder, locks: Locks) -> None:
    """Makes and locks the folders. A log dir that fails is left to the log, as long as there is
    another.
    """
    needed = {folder.root, folder.broker}
    for path in sorted(needed | set(map(Path, folder.log_dirs))):
        try:
            path.mkdir(parents=True, exist_ok=True)
            locks.take(path)
        except OSError as error:
            if path in needed or len(folder.log_dirs) == 1:
                raise
            logger.error("log dir %s: %s", path, error)


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


async def serve(config: BrokerConfig, folder: DataFolder, embedded: bool) -> int:
    """Starts the broker, serves until told to stop, stops it. Raises StartError, ConfigError."""
    stop = asyncio.Event()
    watch_signals(stop)
    if embedded:
        watch_owner(stop)
    logger.info("data folder %s, process %d", folder.root, os.getpid())
    broker = Broker(config, folder)
    try:
        if await starts(broker, stop):
            announce(broker)
            await first_of(stop, broker.failed)
            logger.info("stopping")
    finally:
        await broker.stop()
    logger.info("stopped")
    return 1 if broker.failed.is_set() else 0


async def first_of(*events: asyncio.Event) -> None:
    """Waits until one of the events is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def starts(broker: Broker, stop: asyncio.Event) -> bool:
    """Starts the broker; False if it was told to stop before it had started."""
    starting, stopping = asyncio.ensure_future(broker.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
    if starting.cancelled():
        return False
    starting.result()
    return True


def announce(broker: Broker) -> None:
    """The ready line; from here on the garbage collector looks only at what is made from now on."""
    gc.freeze()
    gc.enable()
    addresses = ",".join(address_of(host, port) for host, port in broker.addresses())
    with contextlib.suppress(OSError):
        print(f"pybroker ready: bootstrap={addresses} pids={os.getpid()}", flush=True)


def watch_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT stops in order, the second at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in STOPS:
        loop.add_signal_handler(number, on_signal)


def watch_owner(stop: asyncio.Event) -> None:
    """Stops when stdin ends or the parent is gone: a fork of the parent may hold the other end of
    stdin open.
    """
    loop = asyncio.get_running_loop()
    watched = [sys.stdin.fileno()]
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            watched.append(os.pidfd_open(os.getppid()))

    def on_end() -> None:
        for fd in watched:
            loop.remove_reader(fd)
        stop.set()

    for fd in watched:
        loop.add_reader(fd, on_end)
