"""The ``repr`` of a client, for notebooks and logs."""

from __future__ import annotations

from typing import Any

from pyclient.config import Config
from pyclient.core.client import Client


def shown(kind: str, config: Config, client: Client, is_closed: bool, **more: Any) -> str:
    """Returns the ``repr``: kind, addresses, identifying settings (None: left out) and state."""
    named = {"client.id": config.client_id, **{name: value for name, value in more.items() if value is not None}}
    state = "closed" if is_closed else "connected" if client.nodes.connections else "not connected"
    told = "".join(f", {name} {value}" for name, value in named.items())
    return f"<{kind} of {', '.join(config.bootstrap_servers)}{told}: {state}>"
