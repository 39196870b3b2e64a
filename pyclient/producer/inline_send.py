"""The thread that waits for a single record sends it and reads the answer itself, without switching threads.

A thread that waits for one batch after another takes over the loop (``core.threads.lease``). When it waits again, it
sends its batch and reads the answer from the socket, for up to a millisecond. It does so only if no other batch waits,
no request to that broker is in flight, and the batch has no callback, since callbacks run on the loop's thread. All
other batches are sent by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Final

from cy.produce.producer_batch import ProducerBatch

if TYPE_CHECKING:
    from pyclient.core.threads.runner import Runner
    from pyclient.producer.sender import Sender

PATIENCE_MS: Final = 1


class InlineSend:
    """Sends on the caller's thread for one producer, whose loop is the runner's."""

    def __init__(self, runner: Runner, sender: Sender) -> None:
        self._runner = runner
        self._lease = runner.lease
        self._sender = sender
        self._last = 0
        """The thread that waited last, if it waited for the only batch."""
        self._lease.on_end = sender.run

    def wake(self) -> None:
        """Runs the sender soon: on the thread that holds the lease when it ends the lease, otherwise on the loop."""
        if not self._lease.is_mine:
            self._runner.call(self._sender.run)

    def before_wait(self, batch: ProducerBatch) -> Callable[[], None] | None:
        """Called by a thread before it waits for the batch; may complete it. Returns a function to call when the batch
        is done.

        Raises if the wait would never end.
        """
        lease = self._lease
        if not lease.enter():
            self._runner.before_wait()
            return partial(self._offer, get_ident())
        try:
            transport = self._sender.inline_send(batch)
            while transport is not None and not batch.done:
                if not transport.serve(PATIENCE_MS):
                    break
        finally:
            lease.leave()
        if not batch.done:
            lease.recall()
        return None

    def _offer(self, thread: int) -> None:
        """Offers the lease to a thread that has waited for the only batch twice in a row."""
        alone = self._sender.is_idle
        if alone and self._last == thread:
            self._lease.offer(thread)
        self._last = thread if alone else 0
