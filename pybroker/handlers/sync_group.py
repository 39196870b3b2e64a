"""SyncGroup (14): v3 static members (KIP-345), v5 protocol type and name (KIP-559)."""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.handlers.call import Call
from pyclient.protocol import SyncGroup


def handle(request: SyncGroup.Request, call: Call) -> Awaitable[SyncGroup.Response]:
    """Waits until the leader has brought the assignments and they are written."""
    response: Awaitable[SyncGroup.Response] = call.broker.groups.sync_group(request)
    return response
