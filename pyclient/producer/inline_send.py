"""One record at a time, acknowledged: the thread that waits for it does the loop's work itself.

A thread that waits for a batch, and has just waited for another, takes the place of the loop (``core.threads.lease``).
When it waits again, it sends its batch and takes the answer from the socket, in a millisecond at most. That is for a
batch alone: no other waits, nothing is under way at its broker, and no callback hangs on it, as callbacks run on the
loop's thread. Everything else goes the usual way.
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
        """The thread that waited last, and for nothing else."""
        self._lease.on_end = sender.run

    def wake(self) -> None:
        """The sender should look. The thread that has the loop's place does it, otherwise the end of the lease."""
        if not self._lease.is_mine:
            self._runner.call(self._sender.run)

    def before_wait(self, batch: ProducerBatch) -> Callable[[], None] | None:
        """What a thread does before it waits for the batch, which may be done then; gives what is to be
        called when it is. Raises where the wait would never end.
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
        """The batch of this thread is done: if it was all there was, as the one before, it has a habit."""
        alone = self._sender.is_idle
        if alone and self._last == thread:
            self._lease.offer(thread)
        self._last = thread if alone else 0
