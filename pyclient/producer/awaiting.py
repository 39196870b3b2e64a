"""``await report``: an asyncio application waits for deliveries of either producer."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress
from typing import Any

from cy.produce.deliveries import Deliveries
from cy.produce.producer_batch import DeliveryReport, set_wait_async


def _wait(deliveries: DeliveryReport | Deliveries) -> Generator[Any, Any, Any]:
    """Waits until all deliveries are done, and returns their outcome."""
    if isinstance(deliveries, Deliveries):
        deliveries.ask()
    while not deliveries.done:
        yield from _one_more(deliveries)
    return deliveries.outcome()


def _one_more(deliveries: DeliveryReport | Deliveries) -> Generator[Any, Any, None]:
    """Waits for the report. Of many deliveries, waits for the first that is not done."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def done() -> None:
        if not future.done():
            future.set_result(None)

    def tell() -> None:
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            done()
        else:
            with suppress(RuntimeError):  # the loop is closed, so nobody waits there
                loop.call_soon_threadsafe(done)

    if isinstance(deliveries, DeliveryReport):
        deliveries.add_done_callback(tell)
    elif pending := deliveries.pending():
        pending[0].add_waiter(tell)
    else:  # the sender's thread has just completed the last one
        return
    yield from future


set_wait_async(_wait)
