"""Defects of the SDK's producer."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any, ClassVar

from cy.produce.phase import Phase
from cy.produce.producer_batch import ProducerBatch
from cy.produce.sending import SendingQueues
from proofs.defects import Patch, defect
from pyclient import Producer, aio
from pyclient.producer.in_flight import Lane


def _send(
    self: Producer,
    topic: str,
    value: Any = None,
    key: Any = None,
    *,
    partition: int | None = None,
    timestamp: int | None = None,
    headers: Any = None,
    on_delivery: Any = None,
) -> Any:
    given = (topic, value, key, partition, timestamp, headers, on_delivery)
    report = self.try_send(*given) if self.direct else None
    return self.send_later(*given) if report is None else report


@defect(
    "pyclient/tests/producer/test_headers.py"
    "::test_each_record_keeps_its_headers_whatever_type_they_are_given_as"
)
def headers_are_read_before_it_is_known_that_the_record_can_be_appended() -> list[Patch]:
    """If the headers are an iterator, the second reading finds it empty."""
    return [(Producer, "send", _send)]


@defect("pyclient/tests/producer/test_headers.py::test_an_interceptor_may_read_headers_and_return_an_iterator")
def headers_of_an_interceptor_are_read_again_and_again() -> list[Patch]:
    """The producer reads the headers at each attempt to append the record."""
    from pyclient.producer import base

    return [(base, "listed", lambda headers: headers)]


@defect("pyclient/tests/test_callbacks.py::test_a_close_refused_inside_a_callback_loses_no_record")
def a_close_in_a_callback_ends_the_producer() -> list[Patch]:
    """``close`` raises after it has stopped the loop, and accepted records are lost."""
    close = Producer._close

    def close_whatever_comes(self: Producer, timeout: float | None, haste: float) -> None:
        if self._runner.is_here and not self.closed:
            self.closed = True
            self._runner.stop()
            self._runner.before_wait()
        close(self, timeout, haste)

    return [(Producer, "_close", close_whatever_comes)]


class _Accepted:
    """An awaitable that is not a coroutine."""

    def __init__(self, report: Any) -> None:
        self._report = report

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._report
        yield


@defect("pyclient/tests/producer/test_send_coroutine.py::test_each_record_is_sent_once_however_its_coroutine_is_run")
def a_record_is_sent_before_its_coroutine_runs() -> list[Patch]:
    """``send`` returns a result that is not a coroutine if the record can be sent at once."""

    def send(self: Any, *given: Any, **named: Any) -> Any:
        found = _send(self, *given, **named)
        return found if hasattr(found, "send") else _Accepted(found)

    return [(aio.Producer, "send", send)]


@defect(
    "pyclient/producer/tests/test_against_broker.py"
    "::test_a_topic_unused_for_long_is_written_with_its_current_partitions"
)
def a_topic_that_is_forgotten_keeps_its_number_of_partitions() -> list[Patch]:
    """The producer sends keys to the old partitions. Records for a removed partition wait until their timeout."""
    from pyclient.producer.engine import Engine

    return [(Engine, "_forget", lambda self, topics: None)]


@defect(
    "pyclient/producer/tests/test_sender.py"
    "::test_a_rejected_batch_reaches_the_new_leader_before_later_batches[False]"
)
def a_batch_overtakes_one_of_which_it_is_not_decided_that_it_goes_again() -> list[Patch]:
    """The answer names the new leader, and the sender sends the next batch first."""
    first = Lane._first

    def of_others(self: Lane, phase: Phase, other: Phase | None = None) -> ProducerBatch | None:
        return first(self, phase, None if other is Phase.ARRIVED else other)

    return [(Lane, "_first", of_others)]


@defect(
    "pyclient/producer/tests/test_faces.py"
    "::test_a_producer_without_transactions_works_after_a_refused_commit[commit_transaction]"
)
def a_commit_without_transactions_makes_every_later_send_slow() -> list[Patch]:
    """The producer refuses the commit, but then checks for transactions at each ``send``."""
    end = Producer._end

    def end_after_all(self: Producer, how: Any) -> Any:
        self.direct = False
        return end(self, how)

    return [(Producer, "_end", end_after_all)]


class _Warning:
    """A coroutine that warns first, and releases its record only if the warning does not raise."""

    kept: ClassVar[list[Any]] = []

    def __init__(self, sending: Any, held: Any) -> None:
        self._sending, self._held = sending, held

    def __del__(self) -> None:
        self._sending.close()
        try:
            warnings.warn("never awaited", RuntimeWarning, stacklevel=2)
        except RuntimeWarning:
            self.kept.append(self._held)
            raise


@defect(
    "pyclient/tests/producer/test_send_coroutine.py"
    "::test_a_send_that_is_never_awaited_is_freed_even_if_warnings_are_errors"
)
def a_record_that_is_never_awaited_stays_where_a_warning_is_an_error() -> list[Patch]:
    """The error ends the deallocation, and the record stays in memory."""
    whole = SendingQueues.send

    def send(self: Any, *given: Any, **named: Any) -> Any:
        return _Warning(whole(self, *given, **named), (given, named))

    return [(aio.Producer, "send", send)]


@defect(
    "pyclient/producer/tests/test_transactions.py"
    "::test_a_coordinator_is_looked_up_again_after_a_move_but_not_while_it_loads"
)
def a_coordinator_that_loads_is_looked_for_again_and_again() -> list[Patch]:
    """Each attempt sends one more FindCoordinator request, which finds the same broker."""
    from pyclient import errors
    from pyclient.producer import coordinator

    loading = errors.COORDINATOR_MOVED | {"COORDINATOR_LOAD_IN_PROGRESS"}
    return [(coordinator, "COORDINATOR_MOVED", loading)]
