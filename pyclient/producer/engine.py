"""What both faces of the producer have on their loop: client, sender, transactions."""

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
from pyclient.errors import ClientClosed, KafkaError
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
"""For the abort of a producer that is closed without time."""


class Queues(RecordQueues):
    """The queues of an engine, which tells them whether records may be sent."""

    def admit(self, admits: bool) -> None:
        """Whether records may be sent now."""
        raise NotImplementedError


class Engine:
    """Lives on ``loop``; its coroutines run there."""

    def __init__(
        self,
        config: Config,
        settings: Settings,
        queues: Queues,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.queues: Queues = proxy(queues)  # a producer that nobody has any more is to be collected
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
        """What a close could not deliver, but for what is of a transaction."""

    def hold(self, queues: Queues) -> None:
        """Nobody else has the queues any more: they stay until this ends."""
        self.queues = self.sender.queues = self.sender.outcomes.queues = queues

    def admit(self, admits: bool) -> None:
        """Whether records may be sent now."""
        self.queues.admit(admits)

    @property
    def is_transactional(self) -> bool:
        """Has a transactional.id."""
        return isinstance(self.identities, Transactions)

    @property
    def transactions(self) -> Transactions:
        """Raises TransactionError where there is no transactional.id."""
        if not isinstance(self.identities, Transactions):
            raise TransactionError("the producer has no transactional.id")
        return self.identities

    async def ready(self, timeout: float | None = None) -> None:
        """Returns when the cluster was reached, in ``timeout`` seconds (max.block.ms). Raises ConnectionFailed."""
        await self.client.start(self.settings.max_block if timeout is None else timeout)

    async def know(self, topic: str, timeout: float) -> None:
        """Returns when the topic's partitions are known, to the queues too."""
        check_topic(topic)
        deadline = self.loop.time() + timeout
        await self.ready(timeout)
        await self.client.metadata([topic], timeout=max(0.0, deadline - self.loop.time()))
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
        """Their partitions may become others unseen: the next record waits until they are known again."""
        for name in topics:
            self.queues.forget_topic(name)

    # -- waiting -----------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Sends everything now, and returns when all that was sent before the call is done."""
        self.client.check_process()
        self.sender.pressed += 1
        try:
            await self._until_done(self.sender.pending())
        finally:
            self.sender.pressed -= 1

    async def _until_done(self, batches: Iterable[ProducerBatch]) -> None:
        """Returns when these are done, however."""
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
        """Sends everything and leaves the transaction to somebody else."""
        return await self.transactions.prepare(self.flush)

    async def abort(self) -> None:
        """Aborts the open transaction."""
        self.client.check_process()
        await self.transactions.abort(self._drop_and_wait)

    async def _drop_and_wait(self) -> None:
        """A request may come in late, also one whose batches have failed meanwhile: none is under way
        when the transaction ends.
        """
        self.sender.drop(TransactionAborted())
        answered = asyncio.Event()
        self.sender.when_answered(answered.set)
        await answered.wait()

    async def init(self) -> None:
        """Makes the transactional producer ready."""
        await self.ready()
        await self.transactions.init()

    async def end_transaction(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends a transaction by its producer id and epoch."""
        await self.ready()
        await self.transactions.end_of(producer_id, epoch, commit)

    async def close(self, timeout: float | None, haste: float = HASTE_S) -> None:
        """Waits ``timeout`` seconds (None: as long as it takes) for what was sent, aborts what is open, then ends;
        completely, whatever is cancelled on the way. ``haste``: seconds for the abort where none are left.
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
        """A transaction that nobody will end is aborted: else readers of committed records would wait behind it
        for transaction.timeout.ms. What is prepared is somebody else's.
        """
        transactions = self.identities
        if not isinstance(transactions, Transactions) or not transactions.can_abort:
            return
        name = self.settings.transactional_id
        log.info("%s: the producer is closed within a transaction, which is aborted", name)
        try:
            async with asyncio.timeout(timeout):
                await self.abort()
        except (KafkaError, TimeoutError) as error:
            why = error or f"no answer in {timeout:.3g} s"
            log.warning("%s: closed, but could not abort its transaction: %s", name, why)

    async def _end(self) -> None:
        try:
            self.fail_all()
            self.identities.close()
        finally:
            await self.client.close()

    def fail_all(self) -> None:
        """What was not delivered will not be: its waiting callers get an error."""
        self.sender.fail_all(ClientClosed())

    @property
    def longest(self) -> float:
        """Seconds that a flush, and what ends a transaction, take at most."""
        return self.settings.delivery_timeout + 2 * self.settings.max_block

    def partitions_of(self, topic: str) -> list[Any]:
        """What is known of the topic's partitions."""
        return self.client.cluster.partitions(topic) or []
