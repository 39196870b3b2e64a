"""What both faces of the producer have on their loop: client, sender, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cy.producer_batch import ProducerBatch
from cy.record_queues import RecordQueues
from pyclient.config import Config
from pyclient.core.client import Client
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


class Engine:
    """Lives on ``loop``; its coroutines run there."""

    def __init__(
        self,
        config: Config,
        settings: Settings,
        queues: RecordQueues,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.queues = queues
        self.client = Client(config, loop=loop)
        transactional = settings.transactional_id is not None
        make = Transactions if transactional else Identities
        self.identities: Identities = make(self.client, settings)
        self.identities.give_up = self._give_up
        self.sender = Sender(self.client, queues, settings, self.identities)
        self.client.cluster.subscribe(self._changed)

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

    def _give_up(self, error: KafkaError) -> None:
        if self.settings.transactional_id is not None:  # until the next begins, ``send`` raises
            self.queues.direct = False
        self.sender.drop(error)

    # -- waiting -----------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Sends everything now, and returns when all that was sent before the call is done."""
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

    async def close(self, timeout: float | None) -> None:
        """Waits ``timeout`` seconds (None: as long as it takes) for what was sent, then ends."""
        try:
            if timeout is None or timeout > 0:
                await asyncio.wait_for(self.flush(), timeout)
        except TimeoutError:
            pass
        finally:
            await self._end()

    async def _end(self) -> None:
        self.sender.fail_all(ClientClosed())
        self.identities.close()
        await self.client.close()

    def partitions_of(self, topic: str) -> list[Any]:
        """What is known of the topic's partitions."""
        return self.client.cluster.partitions(topic) or []
