"""A reply that is being made."""

from __future__ import annotations

import asyncio
from typing import Any

from pybroker.net.routes import Route


class Reply:
    """The place of a reply among those of its connection. ``data`` is None until it is ready, or if the request wants
    no reply.
    """

    __slots__ = ("correlation_id", "data", "ready", "route", "source", "version")

    def __init__(self, route: Route, version: int, correlation_id: int) -> None:
        self.route = route
        self.version = version
        self.correlation_id = correlation_id
        self.source: asyncio.Future[Any] | None = None
        self.ready = False
        self.data: Any = None
