"""Defects of the SDK with signals, other threads and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from proofs.defects import Patch, defect
from pyclient.consumer import asynchronous, blocking, closing
from pyclient.consumer.offsets import commits
from pyclient.consumer.subscription import PartitionState, Subscription
from pyclient.core import tasks
from pyclient.core.threads import call, runner
from pyclient.core.threads.runner import Runner
from pyclient.producer.engine import Engine


class _Event:
    """The bell as it was before this was mended: an event that a lock guards."""

    def __init__(self) -> None:
        event = threading.Event()
        self.ring, self.hush, self.wait = event.set, event.clear, event.wait


@defect("pyclient/core/threads/tests/test_runner.py::test_threads_patched_by_gevent_are_refused_and_the_error_says_what_to_do")
def a_loop_on_a_green_thread_is_begun() -> list[Patch]:
    """The constructor of a client never returns."""
    return [(runner, "_refuse_green_threads", lambda: None)]


@defect("pyclient/tests/interruptions/test_signals.py::test_wakeup_works_at_any_instruction_of_a_poll")
def wakeup_takes_a_lock() -> list[Patch]:
    """The signal handler waits for the thread that it interrupts."""
    return [(blocking, "Bell", _Event)]


@defect(
    "pyclient/tests/interruptions/test_interrupted_calls.py"
    "::test_a_send_can_be_interrupted_at_any_instruction[to a new topic]"
)
def a_signal_may_leave_a_lock_that_the_loop_needs() -> list[Patch]:
    """After a Ctrl-C at the wrong moment, every call of the client hangs."""
    return [(call, "Bell", _Event)]


@defect("pyclient/tests/interruptions/test_signals.py::test_wakeup_of_an_asyncio_consumer_wakes_the_event_loop[thread]")
def wakeup_of_asyncio_wakes_no_loop() -> list[Patch]:
    """The loop notices the wakeup only when something else wakes it."""
    return [(asynchronous.Consumer, "_on_wakeup", lambda self: self._ready.set())]


@defect("pyclient/core/threads/tests/test_runner.py::test_a_call_after_the_last_iteration_of_the_loop_raises_an_error[stopped]")
def a_call_too_late_waits_for_ever() -> list[Patch]:
    """A call hangs while another thread closes the client."""
    return [(Runner, "_fail_calls", lambda self: None)]


@defect("pyclient/core/threads/tests/test_runner.py::test_an_exception_that_stops_a_loop_does_not_stop_the_clients[SystemExit]")
def what_a_callback_raises_ends_the_thread() -> list[Patch]:
    """After ``sys.exit()`` in a callback, the client delivers nothing."""

    def turn(self: Runner, serve: Callable[[], object]) -> None:
        with contextlib.suppress(SystemExit):
            serve()

    return [(Runner, "_turn", turn)]


@defect("pyclient/core/threads/tests/test_runner.py::test_a_wait_times_out_even_if_the_loop_is_blocked")
def the_loop_alone_keeps_the_time() -> list[Patch]:
    """A wait never ends if the client's loop is blocked."""
    result = runner._result

    def wait(future: Any, timeout: float | None, _: float | None) -> Any:
        return result(future, timeout, None)

    return [(runner, "_result", wait)]


@defect("pyclient/core/tests/test_tasks.py::test_a_wait_for_the_end_of_a_task_can_be_cancelled")
def a_cancellation_is_swallowed() -> list[Patch]:
    """A close waits forever if it and its awaited task are both cancelled."""

    async def ended(task: asyncio.Task[Any]) -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return [(tasks, "ended", ended)]


@defect("pyclient/tests/consumer/test_loop.py::test_the_event_loop_runs_while_records_are_buffered[poll]")
def the_asyncio_consumer_keeps_the_loop() -> list[Patch]:
    """While there are records, the application's loop runs nothing else, not even heartbeats."""
    return [(asynchronous, "BUSY_S", 3_600.0)]


@defect("pyclient/tests/closing/test_ends.py::test_records_of_the_last_poll_are_not_committed_after_an_exception")
def ctrl_c_commits_what_was_not_processed() -> list[Patch]:
    """All records of the last poll are committed, processed or not."""

    def leave(self: blocking.Consumer, kind: type[BaseException] | None, *_: object) -> None:
        self._close(done=kind in (None, KeyboardInterrupt), timeout=30.0)

    return [(blocking.Consumer, "__exit__", leave)]


@defect("pyclient/tests/closing/test_ends.py::test_a_failing_task_of_the_group_commits_no_unprocessed_record")
def a_cancellation_commits_what_was_not_processed() -> list[Patch]:
    """All records of the last poll are committed, processed or not."""

    async def leave(self: asynchronous.Consumer, kind: type[BaseException] | None, *_: object) -> None:
        await self._close(done=kind in (None, asyncio.CancelledError), timeout=30.0)

    return [(asynchronous.Consumer, "__aexit__", leave)]


@defect("pyclient/tests/closing/test_ends.py::test_the_current_record_is_not_committed_when_the_iteration_pauses")
def a_pause_in_an_iteration_commits_the_record_in_hand() -> list[Patch]:
    """A pause counts the record in hand as processed, and so commits it."""
    return [(PartitionState, "go_back", PartitionState.seek)]


@defect("pyclient/tests/closing/test_ends.py::test_the_asyncio_member_leaves_the_group_although_its_close_is_cancelled")
def a_close_that_is_cancelled_leaves_a_member() -> list[Patch]:
    """The member keeps its partitions, nobody reads them, and it cannot be closed."""

    async def close(self: asynchronous.Consumer, *, done: bool, timeout: float) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._unclosed.detach()
            await self._give_up(timeout)
            await closing.close(self._core, commit=True, timeout=timeout)

    return [(asynchronous.Consumer, "_close", close)]


@defect("pyclient/tests/closing/test_ends.py::test_a_closed_producer_leaves_no_transaction_open")
def a_closed_producer_leaves_its_transaction_open() -> list[Patch]:
    """Readers of committed records wait until transaction.timeout.ms has passed."""

    async def nothing(self: Engine, timeout: float) -> None:
        return None

    return [(Engine, "_abort_open", nothing)]


@defect("pyclient/tests/test_callbacks.py::test_on_commit_may_raise_anything")
def an_on_commit_that_raises_ends_the_consumer() -> list[Patch]:
    """From then on, each poll raises."""

    def tell(_: object, what: str, function: Callable[..., object], *arguments: object) -> None:
        function(*arguments)

    return [(commits, "tell", tell)]


@defect("pyclient/tests/consumer/test_loop.py::test_a_poll_without_a_subscription_is_refused")
def a_poll_of_nothing_waits_for_ever() -> list[Patch]:
    """A poll of a consumer without partitions waits as if records could come."""
    return [(Subscription, "is_empty", False)]


@defect(
    "pyclient/core/threads/tests/test_runner.py"
    "::test_each_client_hears_of_a_fork_although_others_were_collected"
)
def a_producer_that_has_gone_keeps_a_fork_from_the_other_clients() -> list[Patch]:
    """In the child process the other clients wait for a thread that does not exist."""

    def after_fork(self: Runner) -> None:
        self.forked = True
        self.lease.tenant = 0
        self.on_fork()

    return [(Runner, "after_fork", after_fork)]
