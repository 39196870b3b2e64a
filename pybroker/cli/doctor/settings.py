"""Examines the settings with which a broker would start: a .properties file and the environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from pybroker.cli.reaching.finding import ERROR, OK, WARNING, Finding
from pybroker.config import BrokerConfig, ConfigError, remarks, rights, tls_slips, unprotected
from pybroker.config.listeners import ANYWHERE, advertised_listeners, is_loopback, listeners
from pybroker.process.start_options import StartOptions, configure


def examine(file: str | None) -> Iterator[Finding]:
    """Reports what a start with this file (or none) would report."""
    for line in remarks.of_environment(os.environ):
        yield Finding(WARNING, "environment", line, "unset it, or correct its name")
    what = f"settings {file}" if file else "settings"
    if wrong := errors_of(file):
        for error in wrong:
            yield Finding(ERROR, what, error, "a broker does not start with that")
        return
    try:
        config = configure(StartOptions(file=file))
        for line in (lines := list(remarks.of_settings(config))):
            yield Finding(WARNING, what, line, "a broker starts with it, but it has no effect")
        if line := remarks.of_internals(config):
            yield Finding(OK, what, line)
        yield Finding(OK, what, "all values are valid" if lines else "all keys are known, all values are valid")
        yield from addresses(config)
        if line := rights.open_to_all(config):
            yield Finding(WARNING, "listener", line, "TLS, users and ACLs: docs/protect-a-broker.md")
    except ConfigError as error:
        yield Finding(ERROR, what, str(error), "a broker does not start with it")


def errors_of(file: str | None) -> list[str]:
    """Returns every error that a start would report, not only the first one."""
    found: list[ConfigError] = []
    try:
        config = BrokerConfig.load(file=file, errors=found)
        found += tls_slips.errors_of(config)
        found += unprotected.errors_of(config, alone=not config["zookeeper.connect"])
        advertised_listeners(config)
    except ConfigError as error:
        found.append(error)
    return list(dict.fromkeys(map(str, found)))


def log_dirs(file: str | None) -> list[Path]:
    """Returns the log dirs of a broker with this file; none if the file does not say."""
    try:
        return [Path(each).absolute() for each in BrokerConfig.load(file=file, errors=[]).log_dirs]
    except ConfigError:
        return []


def addresses(config: BrokerConfig) -> Iterator[Finding]:
    """Reports the listeners and the addresses that clients would get. Raises ConfigError."""
    told = advertised_listeners(config)
    for endpoint in listeners(config):
        says = told.get(endpoint.listener)
        if says is not None:
            yield advertised(str(endpoint), says.host, says.port)
        elif is_loopback(endpoint.host):
            yield Finding(OK, "listener", f"a start would open {endpoint}, for clients on this machine only")
        elif endpoint.host in ANYWHERE:
            found = f"a start would open {endpoint}; clients get the address that they have connected to"
            advice = "behind NAT, or in a container with another port outside, set advertised.listeners"
            yield Finding(OK, "listener", found, advice)


def advertised(listener: str, host: str, port: int) -> Finding:
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        advice = f"advertised.listeners: a name that clients can resolve, or DNS for {host}"
        return Finding(ERROR, "listener", f"{listener} tells clients {host}:{port}: {error}", advice)
    return Finding(OK, "listener", f"{listener} tells clients {host}:{port}")
