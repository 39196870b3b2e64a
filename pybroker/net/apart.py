"""Decodes large requests and encodes large responses on a thread, which gives up the GIL often.

On the loop a message has a budget (``LOOP_UNITS``, about a millisecond); what exceeds it is done here. How many parts a
request may have in all is limited by its route (``most_units``), since a part is larger in memory than on the wire:
what is made of a request is little more than its bytes and some ten megabytes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cy.wire.buffer import DecodeError, TooMuch
from pybroker.net.routes import Route

LOOP_UNITS: Final = 20_000
"""The limit for a message that is decoded or encoded on the loop (``Reader.spend``: a unit is some 40 bytes and 40
ns)."""

class Apart:
    """The thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "apart")

    async def decode(self, route: Route, version: int, view: Any, position: int, end: int) -> Any:
        """The request in ``view``. Raises DecodeError also where it is too much."""
        try:
            return await self._loop.run_in_executor(
                self._thread, route.decode, version, view, position, end, route.most_units, True
            )
        except TooMuch:
            raise DecodeError(f"a {route.name} request of {end - position} bytes has too many parts") from None

    def encode(self, route: Route, version: int, correlation_id: int, response: Any) -> asyncio.Future[Any]:
        """The frame of ``response``."""
        return self._loop.run_in_executor(self._thread, route.encode_apart, version, correlation_id, response)

    def close(self) -> None:
        """Ends the thread with what it is doing."""
        self._thread.shutdown(wait=False, cancel_futures=True)
