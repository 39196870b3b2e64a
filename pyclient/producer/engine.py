"""The part that both producers run on their loop: client, sender and transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import proxy

from cy.produce.producer_batch import ProducerBatch
from cy.produce.record_queues import RecordQueues
from pyclient.config import Config
from pyclient.core.client import Client
from pyclient.core.reports.rights import PRODUCING
from pyclient.errors import KafkaError
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.producer.errors import TransactionAborted, TransactionError
from pyclient.producer.identity import Identities
from pyclient.producer.sender import Sender
from pyclient.producer.settings import Settings
from pyclient.producer.transactions import Transactions
from pyclient.topic_name import check_topic

if TYPE_CHECKING:
    from pyclient.core.cluster import Cluster

log = logging.getLogger("pyclient.producer")

HASTE_S: Final = 0.5
"""The time for the abort if a producer is closed without a timeout left."""


class Queues(RecordQueues):
    """The queues of an engine, which tells them whether records may be sent."""

    def admit(self, admits: bool) -> None:
        """Sets whether records may be sent now."""
        raise NotImplementedError


class Engine:
    """The part of a producer that runs on ``loop``."""

    def __init__(
        self,
        config: Config,
        settings: Settings,
        queues: Queues,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.queues: Queues = proxy(queues)  # a weak reference: else an unused producer would never be collected
        self.client = Client(config, loop=loop, needs=PRODUCING)
        transactional = settings.transactional_id is not None
        make = Transactions if transactional else Identities
        self.identities: Identities = make(self.client, settings)
        self.identities.opened = self.admit
        self.sender = Sender(self.client, self.queues, settings, self.identities)
        self.identities.give_up = self.sender.drop
        self.client.cluster.subscribe(self._changed)
        self.client.uses(self._topics_in_use, self._forget)
        self.given_up: list[ProducerBatch] = []
        """Batches that a close could not deliver, without those of a transaction."""

    def hold(self, queues: Queues) -> None:
        """Keeps the queues alive until this engine ends: the application no longer refers to them."""
        self.queues = self.sender.queues = self.sender.outcomes.queues = queues

    def admit(self, admits: bool) -> None:
        """Sets whether records may be sent now."""
        self.queues.admit(admits)

    @property
    def is_transactional(self) -> bool:
        """True if the producer has a transactional.id."""
        return isinstance(self.identities, Transactions)

    @property
    def transactions(self) -> Transactions:
        """The transactions. Raises TransactionError if there is no transactional.id."""
        if not isinstance(self.identities, Transactions):
            raise TransactionError("the producer has no transactional.id: give it one, transactional_id='worker-1'")
        return self.identities

    async def ready(self, timeout: float | None = None) -> None:
        """Waits until the cluster was reached, within ``timeout`` seconds (max.block.ms). Raises ConnectionFailed."""
        await self.client.start(timeout)

    async def know(self, topic: str, timeout: float, setting: str | None = None) -> None:
        """Waits until the topic's partitions are known, and tells the queues. ``setting`` is the key that ``timeout``,
        in seconds, comes from.
        """
        check_topic(topic)
        deadline = self.client.deadline(timeout, setting)
        await self.client.reach(deadline)
        left = max(0.0, deadline - self.client.clock())
        await self.client.metadata([topic], timeout=left, setting=setting)
        self._changed(self.client.cluster, frozenset((topic,)), wanted=True)

    def _changed(
        self, cluster: Cluster, topics: frozenset[str], *, wanted: bool = False
    ) -> None:
        for name in topics:
            partitions = cluster.partitions(name)
            if partitions and (wanted or self.queues.topic(name) is not None):
                self.queues.set_partitions(name, len(partitions))
        self.sender.update_available(topics)
        self.sender.run()

    def _topics_in_use(self) -> dict[str, bool]:
        return dict.fromkeys(self.sender.topics_in_use(), True)

    def _forget(self, topics: Collection[str]) -> None:
        """Forgets topics, so that the next record waits for fresh partitions: they may change unnoticed meanwhile."""
        for name in topics:
            self.queues.forget_topic(name)

    # -- waiting -----------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Sends all batches now, and waits until all records sent before the call are done."""
        self.client.check_process()
        self.sender.pressed += 1
        try:
            await self._until_done(self.sender.pending())
        finally:
            self.sender.pressed -= 1

    async def _until_done(self, batches: Iterable[ProducerBatch]) -> None:
        """Waits until these are delivered or have failed."""
        pending = list(batches)
        self.sender.run()
        left = len(pending)
        done = self.loop.create_future()

        def one() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not done.done():
                done.set_result(None)

        for batch in pending:
            batch.add_waiter(one)
        if pending:
            await done

    async def commit(self) -> None:
        """Commits the open transaction."""
        await self.transactions.commit(self.flush)

    async def prepare(self) -> PreparedTransaction | None:
        """Sends all records and leaves the transaction open for another process."""
        return await self.transactions.prepare(self.flush)

    async def abort(self) -> None:
        """Aborts the open transaction."""
        self.client.check_process()
        await self.transactions.abort(self._drop_and_wait)

    async def _drop_and_wait(self) -> None:
        """Drops unsent batches and waits for all requests in flight. A late request must not arrive after the
        transaction has ended.
        """
        self.sender.drop(TransactionAborted())
        answered = asyncio.Event()
        self.sender.when_answered(answered.set)
        await answered.wait()

    async def init(self) -> None:
        """Gets the transactional producer ready."""
        await self.ready()
        await self.transactions.init()

    async def end_transaction(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends a transaction by its producer id and epoch."""
        await self.ready()
        await self.transactions.end_of(producer_id, epoch, commit)

    async def close(self, timeout: float | None, haste: float = HASTE_S) -> None:
        """Waits ``timeout`` seconds (None: without limit) for sent records, aborts an open transaction, and ends.

        It completes even if it is cancelled. ``haste`` is the time for the abort in seconds, if the timeout leaves
        less.
        """
        deadline = self.loop.time() + (self.longest if timeout is None else timeout)
        left = 0.0
        sent = [batch for batch in self.sender.last() if not batch.is_watched]
        try:
            if timeout is None or timeout > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout):
                        await self.flush()
            left = deadline - self.loop.time()
        finally:
            try:
                await self._abort_open(max(haste, left))
            finally:
                self.given_up += [] if self.is_transactional else dict.fromkeys([*sent, *self.sender.pending()])
                await self._end()

    async def _abort_open(self, timeout: float) -> None:
        """Aborts an open transaction. Otherwise consumers with read_committed would wait for it until
        transaction.timeout.ms. A prepared one stays open.
        """
        transactions = self.identities
        if not isinstance(transactions, Transactions) or not transactions.can_abort:
            return
        name = self.settings.transactional_id
        log.info("%s: the producer is closed within a transaction, which it aborts", name)
        try:
            async with asyncio.timeout(timeout):
                await self.abort()
        except (KafkaError, TimeoutError) as error:
            why = error or f"no answer in {timeout:.3g} s"
            log.warning("%s: the producer is closed, but could not abort its transaction: %s", name, why)

    async def _end(self) -> None:
        try:
            self.fail_all()
            self.identities.close()
        finally:
            await self.client.close()

    def fail_all(self) -> None:
        """Fails all undelivered batches, so that their callers get an error."""
        self.sender.fail_all(self.client.closed())

    @property
    def longest(self) -> float:
        """How many seconds a flush, or the end of a transaction, takes at most."""
        return self.settings.delivery_timeout + 2 * self.settings.max_block

    def partitions_of(self, topic: str) -> list[Any]:
        """Returns the known partitions of the topic."""
        return self.client.cluster.partitions(topic) or []
