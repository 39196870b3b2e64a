"""Defects of connections and requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from cy.wire.codec import Codec
from proofs.defects import Patch, defect
from pybroker import first_step, waiting
from pyclient.protocol import DescribeAcls
from pyclient.protocol.messages import compiler
from pyclient.protocol.schema import read_bodies


@defect("pybroker/tests/test_waiting.py")
def a_handler_that_waits_goes_on_as_a_generator() -> list[Patch]:
    """Python 3.12 refuses it as a task; on 3.11 a cancellation before the task's first step is lost."""

    def start(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        try:
            awaited = work.send(None)
        except StopIteration as stop:
            return stop.value
        return loop.create_task(first_step._resume(work, awaited))

    return [(waiting, "start", start)]


@defect("pybroker/tests/test_waiting.py")
def a_handler_has_no_task_until_it_has_waited() -> list[Patch]:
    """No limit applies to the handler's first wait. From Python 3.12 on, no producer gets an id if brokers share a
    store.
    """

    def start(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        try:
            awaited = work.send(None)
        except StopIteration as stop:
            return stop.value
        rest = first_step._rest(work, awaited)
        rest.send(None)
        return loop.create_task(rest)

    return [(waiting, "start", start)]


@defect(
    "pybroker/net/tests/test_connection.py::test_a_future_that_fails_after_its_connection_closed_is_not_logged"
)
def nobody_looks_at_what_fails_after_its_connection_closed() -> list[Patch]:
    """asyncio logs a complaint for each failure when it is collected as garbage."""
    from pybroker.net.connection import Connection

    whole = Connection._on_result

    def on_result(self: Any, reply: Any, source: asyncio.Future[Any]) -> None:
        if self._socket is not None:
            whole(self, reply, source)

    return [(Connection, "_on_result", on_result)]


@defect(
    "pyclient/protocol/tests/test_codec.py::test_kafka_gos_request_for_acls_is_read_though_a_byte_is_left_over",
    says="1 bytes behind the end",
)
def a_byte_too_many_ends_the_connection() -> list[Patch]:
    """kafka-go cannot describe ACLs, because its request ends with one empty set of tags too many."""
    api = DescribeAcls
    plan = compiler(read_bodies(api.head)["request"], api.Request, api.is_flexible, strict=True)
    closed = Codec("request", api.key, api.min_version, api.max_version, api.flexible_from, plan, False)
    return [(api, "decode_request", closed.decode)]
