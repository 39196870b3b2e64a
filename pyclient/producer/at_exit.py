"""Delivers the records of a producer that was never closed when the program ends, and logs what is lost.

A program ends in two steps. First its threads end; then Python calls the ``atexit`` functions. A child process of
``multiprocessing`` has only the first step. The client's own thread is a daemon, so it runs until both are over.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  # what needs it later may not import it when the threads have ended
import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from cy.counted import counted
from cy.produce.producer_batch import ProducerBatch
from pyclient.core.reports import last_resort
from pyclient.errors import KafkaError
from pyclient.producer.engine import Engine

log: Final = logging.getLogger("pyclient.producer")
last_resort.install()

EXIT_S: Final = 10.0
"""The time limit for all producers of the process together."""
GRACE_S: Final = 1.0
"""The time that a loop gets to start the flush."""


class Forgettable(Protocol):
    """The part of a producer that this module uses."""

    _is_told: bool
    """True if it was logged that the producer lost records."""

    @property
    def closed(self) -> bool: ...


class Unclosed(NamedTuple):
    """A producer that is not closed. ``owner`` is its description for the log, ``process`` the process that made it.

    ``wake`` makes a thread that runs the loop inline leave it. None of the fields may refer to the producer.
    """

    owner: str
    process: int
    engine: Engine
    wake: Callable[[], object]


class Flush:
    """The flush of a producer's records. It begins at once, whether or not a thread waits for it."""

    def __init__(self, unclosed: Unclosed) -> None:
        self._engine = unclosed.engine
        self._batches: list[ProducerBatch] | None = None
        self._done: Future[None] | None = None
        if self._engine.loop.is_running():
            self._done = asyncio.run_coroutine_threadsafe(self._run(), self._engine.loop)
            unclosed.wake()

    async def _run(self) -> None:
        self._batches = self._engine.sender.last()
        await self._engine.flush()

    def wait(self, deadline: float) -> None:
        """Waits until the flush is done, or until ``deadline``, in seconds of ``monotonic``. Raises KeyboardInterrupt.
        """
        if self._done is not None:
            left = max(0.0, deadline - monotonic())
            with suppress(TimeoutError, CancelledError, KafkaError):
                self._done.result(left if self._batches is not None else left + GRACE_S)
            self._done.cancel()

    @property
    def batches(self) -> list[ProducerBatch]:
        """The batches to flush, done or not."""
        if self._batches is None:  # the loop does not run, so this thread may read them
            return self._engine.sender.pending()
        return self._batches


_UNCLOSED: WeakKeyDictionary[Forgettable, Unclosed] = WeakKeyDictionary()
_left = EXIT_S


def remember(producer: Forgettable, owner: str, engine: Engine, wake: Callable[[], object] = lambda: None) -> None:
    """Delivers the producer's records when the program ends, unless ``forget`` is called before."""
    _UNCLOSED[producer] = Unclosed(owner, os.getpid(), engine, wake)


def forget(producer: Forgettable) -> None:
    """Cancels ``remember``, because the producer is closed."""
    _UNCLOSED.pop(producer, None)


def deliver() -> None:
    """Delivers the records of all producers of this process, within what is left of ``EXIT_S``; logs what is lost.

    All flushes begin before the first wait, so a producer whose broker is down takes no time from the others. Ctrl-C
    ends the wait.
    """
    global _left
    deadline = monotonic() + _left
    ours = [(producer, unclosed) for producer, unclosed in list(_UNCLOSED.items()) if _is_due(producer, unclosed)]
    begun = [(producer, unclosed.owner, Flush(unclosed)) for producer, unclosed in ours]
    for producer, owner, flush in begun:
        try:
            flush.wait(deadline)
        except KeyboardInterrupt:
            deadline = 0.0
        producer._is_told = tell_lost(owner, flush.batches)
    _left = max(0.0, deadline - monotonic())


def _is_due(producer: Forgettable, unclosed: Unclosed) -> bool:
    """Returns whether to flush the producer: not within a transaction, since the application has not committed it."""
    if producer.closed or producer._is_told or unclosed.process != os.getpid():
        return False
    if not unclosed.engine.is_transactional:
        return True
    tell_open(unclosed.owner, unclosed.engine)
    producer._is_told = True
    return False


def tell_open(owner: str, engine: Engine) -> None:
    """Logs an error if a transaction is open."""
    if engine.is_transactional and engine.transactions.can_abort:
        log.error("a %s was not closed: its transaction is not committed", owner)


NOT_CLOSED: Final = "a %s was not closed: %s lost%s. Use the producer in a with block, or close it"
CLOSED: Final = "a %s was closed too early: %s lost%s"


def tell_lost(owner: str, batches: Iterable[ProducerBatch], text: str = NOT_CLOSED) -> bool:
    """Logs an error with the number of undelivered records; counts each once. Returns whether there are any."""
    leaves = dict.fromkeys(leaf for batch in batches for leaf in batch.leaves)
    lost = [batch for batch in leaves if not batch.done or batch.error is not None]
    if not lost:
        return False
    why = next((str(error) for batch in lost if (error := batch.error or batch.last_error) is not None), "")
    records = counted(sum(batch.count for batch in lost), "record is", "records are")
    log.error(text, owner, records, f" ({why})" if why else "")
    return True


def _threads_end() -> None:
    """Delivers, unless other threads may still send."""
    ours = (threading.main_thread(), threading.current_thread())
    if all(thread.daemon or thread in ours for thread in threading.enumerate()):
        deliver()


atexit.register(deliver)
with suppress(AttributeError, RuntimeError):  # not public; the interpreter may be ending already
    threading._register_atexit(_threads_end)  # type: ignore[attr-defined]
