"""Idempotent producers with one batch in flight, which they send until it is acknowledged or they give up."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from cy.batch import Builder
from proofs.simulator.clients.client import Client
from proofs.simulator.oracle.history import SAFE, History
from pybroker.replication.partition import ACKS_ALL
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Produce, errors

NOW_MS = 1_700_000_000_000
VERSION = 11
PAUSE_S = 0.02


class Batch(NamedTuple):
    """A batch that a writer sends, and the values of its records."""

    records: bytes
    values: tuple[bytes, ...]


class Writer:
    """Writes a number of batches to a partition. After a batch that it gave up, it takes a new producer id."""

    def __init__(
        self, client: Client, history: History, tp: TopicPartition, name: str, *, acks: int = -1, weight: int = 0
    ) -> None:
        """``weight``: the bytes added to each record."""
        self.client = client
        self.history = history
        self.tp = tp
        self.name = name
        self.acks = acks
        self._key = bytes(weight) if weight else None
        self._producer = history.new_producer()
        self._attempts = 0
        self._sequence = 0
        self._number = 0

    async def run(self, count: int, pause_s: float) -> None:
        """Writes ``count`` batches."""
        rng = self.client.rng
        for _ in range(count):
            if self.history.is_over(self.tp):
                return
            await self.write(rng.choice((1, 1, 2, 3)))
            await asyncio.sleep(rng.random() * pause_s)

    async def write(self, count: int) -> None:
        """Writes one batch."""
        batch = self._next(count)
        self.history.sent(self.tp, batch.values)
        try:
            offset = await self._send(batch)
        except errors.KafkaError as error:
            if isinstance(error, errors.OutOfOrderSequenceNumber) and self.acks == ACKS_ALL and self.tp.topic == SAFE:
                self.history.out_of_order(self.tp, batch.values)
            self.history.gave_up(self.name, self.tp, batch.values)
            self._producer, self._sequence = self.history.new_producer(), 0
            return
        self._sequence += count
        if self.acks == ACKS_ALL:
            self.history.acked(self.tp, batch.values, offset, is_first=self._attempts == 1)

    def _next(self, count: int) -> Batch:
        values = []
        builder = Builder(producer_id=self._producer, producer_epoch=0, base_sequence=self._sequence)
        for _ in range(count):
            self._number += 1
            values.append(f"{self.name}:{self._number}".encode())
            builder.append(NOW_MS, self._key, values[-1])
        return Batch(builder.build(), tuple(values))

    async def _send(self, batch: Batch) -> int:
        """Sends a batch until it is acknowledged. Raises KafkaError if it cannot be, or not in time."""
        deadline = self.client.loop.time() + self.history.settings.delivery_timeout_s
        self._attempts = 0
        while True:
            error: errors.KafkaError
            self._attempts += 1
            try:
                leader = self.client.leader(*self.tp)
                return await self._attempt(leader, batch)
            except errors.KafkaError as failure:
                error = failure
            if isinstance(error, _FATAL) or self.client.loop.time() > deadline or self.history.is_over(self.tp):
                raise error
            await asyncio.sleep(PAUSE_S * (0.5 + self.client.rng.random()))

    async def _attempt(self, leader: int, batch: Batch) -> int:
        timeout_s = self.history.settings.request_timeout_s
        request = request_of(self.tp, batch.records, self.acks, int(timeout_s * 1000))
        response = await self.client.request(leader, request, VERSION, timeout_s)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code:
            raise error_of(answer.error_code)
        return int(answer.base_offset)


def request_of(
    tp: TopicPartition, records: bytes, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> Any:
    """Makes a Produce request of one batch."""
    message = Produce.Request
    data = message.PartitionProduceData(index=tp.partition, records=records)
    return message(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[message.TopicProduceData(name=tp.topic, partition_data=[data])],
    )


def error_of(code: int) -> errors.KafkaError:
    """Returns the error with a code."""
    found = errors.by_code(code)
    assert found is not None
    return found()


_FATAL = (
    errors.OutOfOrderSequenceNumber,
    errors.DuplicateSequenceNumber,
    errors.InvalidProducerEpoch,
    errors.UnknownProducerId,
)
