"""Transactional producers write to some partitions, commit or abort, and retry unanswered requests.

In transactions v2 (KIP-890), Produce adds the partitions, and each end gives the next epoch. ``is_old`` selects v1,
whose transactions share an epoch. There a late commit may end the next transaction, which v2 prevents.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from cy.batch import Builder
from proofs.simulator.clients.client import Client
from proofs.simulator.clients.writers import NOW_MS, error_of, request_of
from proofs.simulator.oracle.history import History, Transaction
from pybroker.cluster.metadata.image import TRANSACTIONS_TOPIC
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import AddPartitionsToTxn, EndTxn, InitProducerId, errors

PAUSE_S: Final = 0.02
TIMEOUT_MS: Final = 1500
ATTEMPTS: Final = 3

RETRIABLE: Final = (
    errors.NetworkException,
    errors.RequestTimedOut,
    errors.LeaderNotAvailable,
    errors.NotLeaderOrFollower,
    errors.NotEnoughReplicas,
    errors.NotEnoughReplicasAfterAppend,
    errors.UnknownTopicOrPartition,
    errors.CoordinatorNotAvailable,
    errors.CoordinatorLoadInProgress,
    errors.NotCoordinator,
    errors.ConcurrentTransactions,
    errors.KafkaStorageError,
)
FENCED: Final = (errors.ProducerFenced, errors.InvalidProducerEpoch)


class Versions(NamedTuple):
    """The request versions that a client uses."""

    produce: int
    end_txn: int


V1, V2 = Versions(11, 4), Versions(12, 5)


class GivenUp(Exception):
    """Raised if the deadline of the transaction has passed."""


class TransactionalWriter:
    """A client of one transactional id, perhaps one of several."""

    def __init__(
        self,
        client: Client,
        history: History,
        partitions: list[TopicPartition],
        transactional_id: str,
        name: str,
        *,
        is_old: bool = False,
    ) -> None:
        self.client = client
        self.history = history
        self.name = name
        self._partitions = partitions
        self._id = transactional_id
        self._is_old = is_old
        self._versions = V1 if is_old else V2
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._number = 0
        self._deadline = 0.0

    async def run(self, count: int, pause_s: float) -> None:
        """Runs so many transactions, unless another client takes the id over."""
        rng = self.client.rng
        self._deadline = self.client.loop.time() + self.history.settings.delivery_timeout_s
        try:
            await self._init()
            for _ in range(count):
                if not await self._transact(rng.random() < 0.7):
                    await self._init()
                await asyncio.sleep(rng.random() * pause_s)
        except (GivenUp, *FENCED):
            return

    async def _init(self) -> None:
        """Initialises the transactional id. The coordinator aborts what its last owner had begun."""
        request = InitProducerId.Request(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        response = await self._ask_coordinator(request, 4)
        self._producer = (response.producer_id, response.producer_epoch)
        self._sequences.clear()

    async def _transact(self, wants_commit: bool) -> bool:
        """Runs one transaction. Returns False if the producer has to start again. Raises ProducerFenced, GivenUp."""
        rng = self.client.rng
        transaction = self.history.begin(f"{self.name}@{self._producer[0]}/{self._producer[1]}")
        try:
            for tp in rng.sample(self._partitions, rng.randint(1, len(self._partitions))):
                await self._write(transaction, tp, rng.choice((1, 1, 2)))
        except FENCED:
            raise
        except errors.KafkaError:
            wants_commit = False
        transaction.ends(wants_commit)
        try:
            await self._end(wants_commit)
        except FENCED:
            raise
        except errors.KafkaError:
            return False
        transaction.has_ended(wants_commit)
        return True

    async def _end(self, committed: bool) -> None:
        producer_id, epoch = self._producer
        request = EndTxn.Request(
            transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, committed=committed
        )
        response = await self._ask_coordinator(request, self._versions.end_txn)
        if not self._is_old:
            self._producer = (response.producer_id, response.producer_epoch)
            self._sequences.clear()

    async def _write(self, transaction: Transaction, tp: TopicPartition, count: int) -> None:
        producer_id, epoch = self._producer
        if self._is_old:
            await self._add(tp)
        sequence = self._sequences.get(tp, 0)
        builder = Builder(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        values = []
        for _ in range(count):
            self._number += 1
            values.append(f"{self.name}:{self._number}".encode())
            builder.append(NOW_MS, None, values[-1])
        transaction.sends(tp, values)
        timeout_s = self.history.settings.request_timeout_s
        request = request_of(tp, builder.build(), -1, int(timeout_s * 1000), self._id)
        await self._ask(lambda: self.client.leader(*tp), request, self._versions.produce)
        self._sequences[tp] = sequence + count

    async def _add(self, tp: TopicPartition) -> None:
        message = AddPartitionsToTxn.Request
        request = message(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[message.AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition])],
        )
        await self._ask_coordinator(request, 3)

    async def _ask_coordinator(self, request: Any, version: int) -> Any:
        return await self._ask(lambda: self.client.leader(TRANSACTIONS_TOPIC, 0), request, version)

    async def _ask(self, find: Any, request: Any, version: int) -> Any:
        """Repeats a request until an answer counts. Raises KafkaError, GivenUp."""
        timeout_s = self.history.settings.request_timeout_s
        while True:
            try:
                response = await self.client.request(find(), request, version, timeout_s)
                code = code_of(response)
                if not code:
                    return response
                raise error_of(code)
            except RETRIABLE:
                if self.client.loop.time() > self._deadline:
                    raise GivenUp from None
            await asyncio.sleep(PAUSE_S * (0.5 + self.client.rng.random()))


def code_of(response: Any) -> int:
    """Returns the first error code in a response."""
    if hasattr(response, "responses"):
        return int(response.responses[0].partition_responses[0].error_code)
    if hasattr(response, "results_by_topic_v3_and_below"):
        topic = response.results_by_topic_v3_and_below[0]
        return int(topic.results_by_partition[0].partition_error_code)
    return int(response.error_code)
