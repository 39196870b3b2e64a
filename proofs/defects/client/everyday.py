"""Defects in everyday use of the SDK."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Collection
from socket import SOCK_STREAM, socket
from time import monotonic
from typing import Any

from cy.produce.producer_batch import ProducerBatch
from proofs.defects import Patch, defect
from pyclient.consumer import readers
from pyclient.consumer.alone import Alone
from pyclient.core.reports.outages import Outages
from pyclient.errors import of_code
from pyclient.producer import at_exit, outcome, pipeline
from pyclient.producer.at_exit import Flush, Unclosed
from pyclient.protocol import stream
from pyclient.topic_partition import TopicPartition

FORKED = "pyclient/tests/closing/test_at_exit.py::test_a_forked_child_leaves_its_parents_records_to_the_parent"


@defect(
    "pyclient/tests/consumer/test_without_group.py"
    "::test_partitions_that_are_added_later_are_read_from_their_first_record"
)
def a_partition_that_is_added_later_is_read_from_its_end() -> list[Patch]:
    """With auto.offset.reset=latest, the consumer skips records that were written before it knew the partition."""

    def assign(self: Alone, partitions: set[TopicPartition], later: Collection[TopicPartition] = ()) -> None:
        with self._lock:
            self._subscription.set_assigned(partitions)

    return [(Alone, "_assign", assign)]


@defect(
    "pyclient/tests/test_serializers.py"
    "::test_the_error_of_a_failing_deserializer_names_the_record_and_reading_continues"
)
def a_deserializers_error_names_no_record() -> list[Patch]:
    """``record.value`` raises the deserializer's error unchanged."""

    def failed(part: str, topic: str, partition: int, offset: int, error: Exception) -> Exception:
        return error

    return [(readers, "DeserializationError", failed)]


@defect("pyclient/tests/test_serializers.py::test_the_error_of_a_refused_batch_names_partition_and_size")
def what_a_broker_refuses_names_no_topic() -> list[Patch]:
    """The error contains only the broker's text, without a topic."""

    def refusal(batch: ProducerBatch, row: Any) -> Any:
        return of_code(row.error_code, row.error_message)

    return [(outcome, "_refusal", refusal)]


@defect("pyclient/tests/producer/test_callback_order.py::test_a_callback_in_wrong_order_is_refused_before_its_record_is_sent")
def an_interceptor_hides_a_callback_that_takes_the_error_first() -> list[Patch]:
    """Only the wrapper's signature is checked, so the callback takes each success for a failure."""
    return [(pipeline, "check_order", lambda callback: 0)]


@defect("pyclient/tests/closing/test_at_exit.py::test_an_unclosed_producer_delivers_after_an_exception_or_sys_exit")
def a_producer_that_nobody_closes_loses_its_records() -> list[Patch]:
    """The records are lost silently when the program ends."""
    return [(at_exit, "_is_due", lambda producer, unclosed: False)]


@defect("pyclient/tests/closing/test_at_exit.py::test_a_producer_whose_broker_hangs_does_not_keep_others_from_delivering")
def producers_that_nobody_closes_are_delivered_one_after_the_other() -> list[Patch]:
    """The producers share one time limit. When it is over, the remaining producers send nothing."""
    whole = Flush.__init__

    def begin(self: Flush, unclosed: Unclosed) -> None:
        if at_exit._left:
            whole(self, unclosed)
            deadline = monotonic() + at_exit._left
            self.wait(deadline)
            at_exit._left = max(0.0, deadline - monotonic())
        else:
            self._engine, self._batches, self._done = unclosed.engine, None, None

    return [(Flush, "__init__", begin)]


@defect("pyclient/core/reports/tests/test_outages.py::test_a_consumer_that_reaches_no_broker_writes_one_line_to_stderr")
def a_client_without_its_broker_is_mute() -> list[Patch]:
    """``poll`` returns nothing forever, and nothing tells the user why."""
    return [(Outages, "tell", lambda self, node, broker, error, now, is_connected: None)]


@defect(FORKED + "[127.0.0.1]")
def a_connection_begins_threads_of_libuv() -> list[Patch]:
    """A forked child dies of SIGSEGV when it exits, because it waits for threads that it does not have."""

    async def connect(loop: AbstractEventLoop, sock: socket, address: Any) -> None:
        await loop.sock_connect(sock, address)

    return [(stream, "reach", connect)]


@defect(FORKED + "[localhost]")
def a_name_is_looked_up_on_threads_of_libuv() -> list[Patch]:
    """A forked child dies of SIGSEGV if bootstrap.servers has a host name."""

    async def ask(loop: AbstractEventLoop, host: str, port: int) -> list[Any]:
        return list(await loop.getaddrinfo(host, port, type=SOCK_STREAM))

    return [(stream, "look_up", ask)]
