"""The addresses of bootstrap.servers."""

from __future__ import annotations

from pyclient.config import Config
from pyclient.errors import ConfigError


def bootstrap(config: Config) -> list[tuple[str, int]]:
    """Host and port of each of bootstrap.servers. Raises ConfigError."""
    return [_address(each) for each in config.bootstrap_servers]


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers={text!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
