"""Decodes large requests and encodes large responses on a thread that releases the GIL often.

On the event loop, a message has a budget of about a millisecond (``LOOP_UNITS``, ``ENCODED_UNITS``). Larger messages
are handled here. A route limits how many parts a request may have (``most_units``), because a part is larger in memory
than on the wire. So a decoded request takes little more memory than its bytes and about ten megabytes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cy.wire.buffer import DecodeError, TooMuch
from pybroker.net.routes import Route

LOOP_UNITS: Final = 20_000
"""The limit for a message that is decoded on the loop (``Reader.spend``: a unit is about 40 bytes and 40 ns)."""
ENCODED_UNITS: Final = 2 * LOOP_UNITS
"""The limit for a message that is encoded on the loop (``Writer.spend``: a unit is about 20 ns)."""


class LargeMessages:
    """Decodes and encodes large messages on a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "large-messages")

    async def decode(self, route: Route, version: int, view: Any, position: int, end: int) -> Any:
        """Decodes the request in ``view``. Raises DecodeError if it is malformed or has too many parts."""
        try:
            return await self._loop.run_in_executor(
                self._thread, route.decode, version, view, position, end, route.most_units, True
            )
        except TooMuch:
            raise DecodeError(f"a {route.name} request of {end - position} bytes has too many parts") from None

    def encode(self, route: Route, version: int, correlation_id: int, response: Any) -> asyncio.Future[Any]:
        """Encodes the frame of ``response``."""
        return self._loop.run_in_executor(self._thread, route.encode_apart, version, correlation_id, response)

    def close(self) -> None:
        """Ends the thread. Work that still waits for it is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
