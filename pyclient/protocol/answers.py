"""Awaits a request that ends with a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyclient.protocol.errors import KafkaError

OnDone = Callable[[Any, "KafkaError | None"], object]
"""Called once with the response and None, or None and the error."""


class MakesFutures(Protocol):
    """The part of an event loop that this module uses."""

    def create_future(self) -> asyncio.Future[Any]: ...


def answer_on(loop: MakesFutures) -> tuple[asyncio.Future[Any], OnDone]:
    """Returns a future of ``loop``, and the callback that ends it with the response or the error. After a cancellation
    of the future, the callback does nothing. It must be called on the loop.
    """
    answer = loop.create_future()

    def on_done(response: Any, error: KafkaError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(response)

    return answer, on_done
