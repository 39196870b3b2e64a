"""Cancels calls of the asyncio interfaces at their n-th step, for n = 1, 2, … until they finish first.

After each cancellation the client continues. A record was sent entirely or not at all, no record of a poll is passed
over, and a close is complete. A step is what a task does between two waits.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any

from harness.faults.cancelling import PATIENCE_S, Operation, cancelled_at
from pyclient import TopicPartition, aio
from pyclient.errors import KafkaError

MOST_STEPS = 60


class Cancelled:
    """Cancels the operations of three clients at each of their steps, again and again."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self.cancellations = 0
        self.sent: list[tuple[int, Awaitable[Any]]] = []
        """The accepted numbers, with the awaitables of their outcomes."""
        self.committed: list[int] = []
        self.numbers = 0
        self.expected = 0

    async def run(self, count: int) -> None:
        """Cancels operations; raises AssertionError if something is wrong."""
        tasks, sockets, threads = asyncio.all_tasks(), _sockets(), threading.active_count()
        async with self._clients():
            while self.cancellations < count:
                for operation in (self._send, self._flush, self._poll, self._commit, self._transact, self._abort):
                    await self._at_each_step(operation)
                for close in (self._close_producer, self._close_consumer, self._close_transactional):
                    await self._at_each_step(close)
            await self._check_sent()
        await asyncio.sleep(0.2)
        gc.collect()
        assert asyncio.all_tasks() == tasks, asyncio.all_tasks() - tasks
        assert _sockets() <= sockets, f"{_sockets()} sockets, {sockets} before"
        assert threading.active_count() == threads

    @asynccontextmanager
    async def _clients(self) -> AsyncIterator[None]:
        settings = {"auto_offset_reset": "earliest", "max_poll_records": 3, "enable_auto_commit": False}
        async with (
            aio.Producer(self.bootstrap) as self.producer,
            aio.Producer(self.bootstrap, transactional_id=self.group) as self.transactional,
            aio.Consumer(self.bootstrap, settings, group_id=f"{self.group}-read") as self.consumer,
        ):
            await (await self.producer.send(self.topic, b"-1"))
            await self.consumer.assign([TopicPartition(self.topic, 0)])
            yield

    async def _at_each_step(self, operation: Operation) -> None:
        for is_late in (False, True):
            for step in range(1, MOST_STEPS):
                was_cancelled, _ = await cancelled_at(step, operation, is_late)
                self.cancellations += was_cancelled
                if not was_cancelled:
                    break

    # -- what is cancelled -----------------------------------------------------------------------------

    async def _send(self) -> None:
        number = self.numbers
        self.numbers += 1
        report = await self.producer.send(self.topic, b"%d" % number)
        self.sent.append((number, report))
        await report

    async def _flush(self) -> None:
        for _ in range(3):
            number = self.numbers
            self.numbers += 1
            self.sent.append((number, await self.producer.send(self.topic, b"%d" % number)))
        await self.producer.flush()

    async def _poll(self) -> None:
        for record in await self.consumer.poll(timeout=0.01):
            assert record.offset == self.expected, f"{record.offset} came, {self.expected} was expected"
            self.expected += 1

    async def _commit(self) -> None:
        await self.consumer.commit({TopicPartition(self.topic, 0): self.expected})

    async def _transact(self) -> None:
        await self._reset()
        number = self.numbers
        self.numbers += 1
        async with self.transactional.transaction():
            await self.transactional.send(f"{self.topic}-txn", b"%d" % number)
        self.committed.append(number)

    async def _abort(self) -> None:
        await self._reset()
        await self.transactional.begin_transaction()
        await self.transactional.send(f"{self.topic}-txn", b"aborted")
        await self.transactional.abort_transaction()

    async def _reset(self) -> None:
        """Aborts what a cancellation has left open; may itself be cancelled."""
        with suppress(KafkaError):
            await self.transactional.abort_transaction()

    async def _close_producer(self) -> None:
        producer = aio.Producer(self.bootstrap)
        try:
            await producer.send(f"{self.topic}-closed", b"v")
        finally:
            await producer.close()

    async def _close_transactional(self) -> None:
        producer = aio.Producer(self.bootstrap, transactional_id=f"{self.group}-closed")
        try:
            await producer.begin_transaction()
            await producer.send(f"{self.topic}-closed", b"open")
        finally:
            await producer.close()

    async def _close_consumer(self) -> None:
        consumer = aio.Consumer(self.bootstrap, group_id=f"{self.group}-closed", topics=self.topic)
        try:
            await consumer.poll(timeout=0.05)
        finally:
            await consumer.close()

    # -- what must be so at the end --------------------------------------------------------------------

    async def _check_sent(self) -> None:
        """Checks that accepted and committed records are there once, in order, and that aborted records are not."""
        await self._reset()
        await self.producer.flush()
        for _, report in self.sent:
            await report
        found = await self._read(self.topic)
        accepted = [number for number, _ in self.sent]
        assert found == sorted(set(found)), "doubled, or out of order"
        assert set(accepted) <= set(found), f"{set(accepted) - set(found)} are lost"
        seen = await self._read(f"{self.topic}-txn")
        assert seen == sorted(set(seen)), "doubled, or out of order"
        assert set(self.committed) <= set(seen), f"{set(self.committed) - set(seen)} are lost"

    async def _read(self, topic: str) -> list[int]:
        place = TopicPartition(topic, 0)
        async with aio.Consumer(self.bootstrap, isolation_level="read_committed") as reader:
            end = (await reader.end_offsets([place]))[place]
            await reader.assign([place])
            reader.seek_to_beginning()
            found: list[int] = []
            async with asyncio.timeout(PATIENCE_S):
                while await reader.position(place) < end:
                    found += [int(record.value) for record in await reader.poll(timeout=0.2)]
        return found


def _sockets() -> int:
    """Counts this process's sockets."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(name.startswith("socket:") for name in names)
