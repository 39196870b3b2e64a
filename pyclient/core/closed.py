"""The error of calls to a closed client."""

from __future__ import annotations

from pyclient.config import Config
from pyclient.errors import ClientClosed


def closed(config: Config) -> ClientClosed:
    """Returns the error, which names the client by its settings."""
    servers = ", ".join(config.bootstrap_servers)
    return ClientClosed(f"The client is closed: client.id {config.client_id} of {servers}")
