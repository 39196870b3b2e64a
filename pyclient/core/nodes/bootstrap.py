"""The addresses of bootstrap.servers."""

from __future__ import annotations

import re
from typing import Final

from pyclient.config import Config
from pyclient.errors import ConfigError

PORT: Final = 9092
"""The port that Kafka uses by default."""
HOST: Final = re.compile(r"\[?[0-9a-zA-Z\-%._:]+]?")
"""The hosts that Kafka accepts."""
SEPARATORS: Final = re.compile(r"[\s;|]")
"""Characters that users may write instead of the comma between addresses."""


def bootstrap(config: Config) -> list[tuple[str, int]]:
    """Returns the host and the port of each server in bootstrap.servers. Raises ConfigError."""
    found = [address(each) for each in config.bootstrap_servers]
    if not found:
        raise ConfigError("bootstrap.servers is empty: expected host:port, comma-separated")
    return found


def address(text: str) -> tuple[str, int]:
    """Returns the host and the port in one bootstrap address. Raises ConfigError."""
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    if not HOST.fullmatch(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        hint = f": did you mean {host or port}:{PORT}?" if not colon or not port else ""
        if SEPARATORS.search(text):
            hint = ": separate addresses by commas"
        raise ConfigError(f"bootstrap.servers={text!r} is not host:port{hint}")
    return host.removeprefix("[").removesuffix("]"), int(port)
