"""Consumers that read committed transactions, and the records that a log commits according to its markers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from cy.batch import check_crc, iterate, read_header
from proofs.simulator.clients.client import Client
from proofs.simulator.clients.writers import error_of
from proofs.simulator.oracle.chain import split
from proofs.simulator.oracle.oracle import Violation
from pybroker.log.producers.marker import COMMIT, decode
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Fetch, errors

PAUSE_S = 0.05
WAIT_MS = 400
VERSION = 12
READ_COMMITTED = 1


class Read(NamedTuple):
    """A record that a consumer got."""

    offset: int
    value: bytes


class Reader:
    """Reads one partition from its beginning. It ends when it is told to and has reached the end of the log."""

    def __init__(self, client: Client, tp: TopicPartition) -> None:
        self.client = client
        self.tp = tp
        self.read: list[Read] = []
        self.position = 0
        self.last_stable_offset = -1

    async def run(self) -> None:
        """Fetches without end."""
        while True:
            try:
                await self._fetch()
            except errors.KafkaError:
                await asyncio.sleep(PAUSE_S)

    async def _fetch(self) -> None:
        message = Fetch.Request
        wanted = message.FetchPartition(
            partition=self.tp.partition, fetch_offset=self.position, partition_max_bytes=1 << 20
        )
        topic = message.FetchTopic(topic=self.tp.topic, partitions=[wanted])
        request = message(
            max_wait_ms=WAIT_MS, min_bytes=1, isolation_level=READ_COMMITTED, session_epoch=-1, topics=[topic]
        )
        leader = self.client.leader(*self.tp)
        response = await self.client.request(leader, request, VERSION, WAIT_MS / 1000 + 0.3)
        if response.error_code:
            raise error_of(response.error_code)
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise error_of(answer.error_code)
        self._take(answer)

    def _take(self, answer: Any) -> None:
        """Takes records as clients do: it skips the records of aborted transactions up to their markers."""
        self.last_stable_offset = answer.last_stable_offset
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        left_out: set[int] = set()
        for data, end in split(answer.records or b""):
            batch = read_header(data, 0)
            if not check_crc(data, 0, batch):
                raise Violation("torn", f"{self.tp}: {batch!r} was served with a wrong CRC")
            while aborted and aborted[0][0] <= batch.last_offset:
                left_out.add(aborted.pop(0)[1])
            if batch.is_control:
                if decode(data) is not None:
                    left_out.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in left_out):
                found = (Read(record.offset, bytes(record.value or b"")) for record in iterate(data))
                self.read += [each for each in found if each.offset >= self.position]
            self.position = max(self.position, end)


def visible(batches: Iterable[bytes]) -> list[Read]:
    """Returns the committed records of a log in order, by its markers alone."""
    found: list[Read] = []
    pending: dict[int, list[Read]] = {}
    for data in batches:
        batch = read_header(data, 0)
        if batch.is_control:
            marker = decode(data)
            records = pending.pop(batch.producer_id, [])
            if marker is not None and marker.kind == COMMIT:
                found += records
            continue
        records = [Read(record.offset, bytes(record.value or b"")) for record in iterate(data)]
        if batch.is_transactional:
            pending.setdefault(batch.producer_id, []).extend(records)
        else:
            found += records
    return sorted(found)
