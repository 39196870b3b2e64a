"""Runs one broker, or several, in the foreground: from options to exit code.

    0  stopped by SIGTERM or SIGINT (or, embedded, by its owner)
    1  failed while it ran; the log says why
    2  misused: an unknown key, a bad value, a folder in use or of another user, a taken port;
       one line on stderr says which of these

Only the ready line goes to stdout. A single broker runs in this process. Several brokers are processes of their own
(``fleet``), each started as a *member*. A member gets its settings, locks only its own folders, reports its addresses
to the supervisor on stdout (``hello``), and ends when the supervisor ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cy.counted import counted
from pybroker import data_folder, private_files
from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.sources import to_properties
from pybroker.data_folder import DataFolder, FolderInUse, Locks
from pybroker.process import diagnostics
from pybroker.process.foreground import (
    announce,
    event_loop,
    first_of,
    has_owner,
    raise_file_limit,
    say,
    settle,
    watch_owner,
    watch_signals,
)
from pybroker.process.start_options import (
    StartOptions,
    configure,
    first_acls,
    first_users,
    remark,
    replicated,
    settings_of_members,
    settings_to_share,
    store_options,
    with_base,
)
from pybroker.server import Broker, StartError

OWNER_GONE_S = 8.0
"""How many seconds after the end of its supervisor a member ends, at the latest."""
LOCK_PATIENCE_S = 10.0
"""How long a member waits for its folder. An earlier process, whose supervisor was killed, may still have it."""
LOCK_RETRY_S = 0.1

logger = logging.getLogger("pybroker.start")


def run(options: StartOptions) -> int:
    """Runs until a signal or its owner stops it; returns the exit code."""
    diagnostics.set_up(options.log_level)
    private_files.by_default()
    raise_file_limit()
    try:
        options = with_base(options)
        config = configure(options)
        if not options.member:
            remark(config, options)
        if options.processes > 1:
            return run_several(options, config)
        return run_one(options, config)
    except (ConfigError, FolderInUse, StartError) as error:
        diagnostics.flush()
        print(f"pybroker: {error}", file=sys.stderr)
        return 2
    finally:
        diagnostics.flush()


def run_one(options: StartOptions, config: BrokerConfig) -> int:
    """Runs a broker in this process."""
    who = f"broker {config['node.id']}" if options.member else ""
    if options.member:
        diagnostics.set_up(options.log_level, who)
    if options.audit_log is not None:
        audit_into(options.audit_log, who)
    folder = data_folder.plan(options.data_dir, config["node.id"], config.log_dirs)
    with claimed(folder, options, config), event_loop() as loop:
        return loop.run_until_complete(serve(config, folder, options))


def audit_into(file: str, who: str) -> None:
    """Sends the audit log to the file. Raises ConfigError."""
    from pybroker.security.audit import LOGGER

    try:
        diagnostics.into_file(LOGGER, file, who)
    except OSError as error:
        raise ConfigError(f"--audit-log {file}: {error.strerror}") from error


def run_several(options: StartOptions, config: BrokerConfig) -> int:
    """Runs brokers in processes of their own."""
    settings_of_members(options, config)  # raises before anything is changed
    folder = data_folder.plan(options.data_dir, config["node.id"], config.log_dirs)
    shared = contextlib.nullcontext() if options.join else locked(folder.root, options.temporary, config)
    with shared, reserved(folder.root, options.processes, config), event_loop() as loop:
        if not options.join:
            with _failures_of(folder.root, config):
                shared_settings = replicated(config, options.processes) | settings_to_share(config)
                folder.write_settings(to_properties(shared_settings))
        return loop.run_until_complete(supervise(config, folder, options))


@contextlib.contextmanager
def claimed(folder: DataFolder, options: StartOptions, config: BrokerConfig) -> Iterator[None]:
    """Locks the folders of a broker for this process. Raises FolderInUse, StartError."""
    locks = Locks()
    patience_s = LOCK_PATIENCE_S if options.member else 0.0
    new = [path for path in {*map(Path, folder.log_dirs), folder.broker, folder.root} if not path.exists()]
    is_claimed = False
    try:
        with _failures_of(folder.root, config):
            claim(folder, locks, shared_root=options.shares_folder, patience_s=patience_s)
            if options.join:
                locks.reserve(folder.broker)
            is_claimed = True
            folder.write_pid()
        yield
    except StartError:
        if is_claimed:
            _remove_pid(folder)
        data_folder.remove_unused(sorted(new, reverse=True))
        raise
    finally:
        if is_claimed:
            _remove_pid(folder)
            if options.temporary:
                remove_of_owner(folder.root)
        locks.release()


def _remove_pid(folder: DataFolder) -> None:
    with contextlib.suppress(OSError):
        folder.remove_pid()


@contextlib.contextmanager
def locked(root: Path, temporary: bool, config: BrokerConfig) -> Iterator[None]:
    """Locks the folder that several brokers share. Raises FolderInUse, StartError."""
    locks = Locks()
    with _failures_of(root, config):
        data_folder.make(root)
        locks.take(root)
        data_folder.close_to_others(root)
    try:
        yield
    finally:
        if temporary:
            remove_of_owner(root)
        locks.release()


def remove_of_owner(root: Path) -> None:
    """Removes the folder if its owner has ended. An existing owner removes it itself, or starts another broker on it.
    """
    if not has_owner():
        shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def reserved(root: Path, brokers: int, config: BrokerConfig) -> Iterator[None]:
    """Reserves the folders of brokers for their supervisor, even while they do not run. Raises FolderInUse, StartError.
    """
    locks, first_id = Locks(), config["node.id"]
    with _failures_of(root, config):
        for node_id in range(first_id, first_id + brokers):
            folder = data_folder.plan(str(root), node_id, ()).broker
            data_folder.make(folder)
            locks.reserve(folder)
    try:
        yield
    finally:
        locks.release()


@contextlib.contextmanager
def _failures_of(root: Path, config: BrokerConfig) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = Path(error.filename or root)
        setting = setting_of(path, config)
        what, remedy = ("log dir", f"change {setting}") if setting else ("data folder", "choose another --data-dir")
        why = "it is a file, not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise StartError(f"{what} {path}: {why}: {remedy}") from error


def setting_of(path: Path, config: BrokerConfig) -> str:
    """Returns the setting that chose the path, with its origin; empty if none did."""
    name = "log.dirs" if config["log.dirs"] else "log.dir"
    if any(path.is_relative_to(Path(each).absolute()) for each in config.log_dirs):
        return f"{name} (from {config.where(name)})"
    return ""


def claim(folder: DataFolder, locks: Locks, *, shared_root: bool, patience_s: float) -> None:
    """Creates and locks the folders. Ignores a failing log dir if there is another one: ``log`` takes it offline."""
    needed = {folder.broker} if shared_root else {folder.root, folder.broker}
    deadline = time.monotonic() + patience_s
    for path in sorted(needed | set(map(Path, folder.log_dirs))):
        try:
            data_folder.make(path)
            _take(path, locks, deadline, "--node-id" if shared_root and path == folder.broker else "--data-dir")
            data_folder.close_to_others(path)
        except OSError as error:
            if path in needed or len(folder.log_dirs) == 1:
                raise
            logger.error("log dir %s: %s", path, error)


def _take(path: Path, locks: Locks, deadline: float, otherwise: str) -> None:
    while True:
        try:
            return locks.take(path, otherwise)
        except FolderInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOCK_RETRY_S)


async def serve(config: BrokerConfig, folder: DataFolder, options: StartOptions) -> int:
    """Starts the broker, lets it serve until it is told to stop, and stops it. Raises StartError, ConfigError."""
    stop = asyncio.Event()
    watch_signals(stop)
    if options.embedded or options.member:
        watch_owner(stop, OWNER_GONE_S if options.member else None)
    logger.info("data folder %s, process %d", folder.root, os.getpid())
    broker = Broker(
        config,
        folder,
        store=store_options(options, config, folder),
        first_users=first_users(options),
        first_acls=first_acls(options),
    )
    try:
        if await starts(broker, stop):
            settle()
            if options.member:
                say_hello(broker)
            else:
                announce(broker.addresses(), [os.getpid()])
            await first_of(stop, broker.failed)
            logger.info("stopping")
    finally:
        await broker.stop()
    logger.info("stopped")
    return 1 if broker.failed.is_set() else 0


def say_hello(broker: Broker) -> None:
    """Tells the supervisor that this broker accepts requests, and where."""
    from pybroker.process.broker_process import Hello

    say(Hello(os.getpid(), broker.addresses(), broker.listeners()).line())


async def starts(broker: Broker, stop: asyncio.Event) -> bool:
    """Starts the broker; returns False if it was told to stop before it was ready."""
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


async def supervise(config: BrokerConfig, folder: DataFolder, options: StartOptions) -> int:
    """Starts all brokers, keeps them running until it is told to stop, and stops them. Raises StartError."""
    from pybroker.process.fleet import Fleet, FleetFailed  # the import takes 20 ms, which a single broker saves

    stop, at_once = asyncio.Event(), asyncio.Event()
    watch_signals(stop, at_once)
    fleet, misused = Fleet(options, config, folder), False
    if options.embedded:
        from pybroker.process.orders import Orders

        watch_owner(stop, heed=Orders(fleet).heed)
    logger.info("data folder %s, supervisor %d", folder.root, os.getpid())
    try:
        if await fleet.start(stop):
            settle()
            announce(fleet.addresses(), fleet.pids())
            await stop.wait()
            logger.info("stopping %s", counted(options.processes, "broker"))
    except FleetFailed:
        misused = True  # the broker process has printed the reason
    finally:
        clean = await fleet.stop(at_once)
    if misused:
        return 2
    logger.info("stopped")
    return 0 if clean else 1
