"""Measures transactions per second: sixteen producers each begin, write one record to their own partition, and commit.

The load uses the second protocol (KIP-890): Produce v12 adds the partition, EndTxn v5 answers with the next epoch. A
producer gets CONCURRENT_TRANSACTIONS while its previous markers are still being written. Then it retries after a
moment, as clients do.
"""

from __future__ import annotations

from itertools import count

from conformance.bench.cases import Figures, LoadError, Scale, create_topic
from conformance.bench.pipeline import Client, Later, drive
from conformance.data import batches
from harness import processes
from harness.protocol import error_codes, kinds
from harness.protocol.wire_client import Wire, decode_response, encode_request
from harness.servers.brokers import Broker
from harness.waiting import settled

PRODUCERS = 16
#: Transactions per record of the small-records case.
SHARE = 20
RETRY_S = 0.002
INIT, PRODUCE, END = ("InitProducerId", 4), ("Produce", 12), ("EndTxn", 5)
_number = count(1)


class Transactor(Client):
    """A producer that gets its replies one at a time, so its last request tells what a reply is."""

    def __init__(self, topic: str, partition: int, transactions: int) -> None:
        self.topic, self.partition, self.left = topic, partition, transactions
        self.transactional_id = f"bench-txn-{next(_number)}"
        self.producer_id = self.epoch = -1
        self.asked, self.frame = INIT, b""
        self.retries = 0

    def start(self) -> bytes:
        fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        return self._ask(INIT, transactional_id=self.transactional_id, **fields)

    def _ask(self, what: tuple[str, int], **fields: object) -> bytes:
        self.asked = what
        self.frame = encode_request(*what, fields)
        return self.frame

    def answer(self, reply: bytes) -> bytes | Later:
        answer = decode_response(*self.asked, reply)
        row = answer.responses[0].partition_responses[0] if self.asked is PRODUCE else answer
        if row.error_code in (error_codes.CONCURRENT_TRANSACTIONS, *error_codes.COORDINATOR_NOT_READY):
            self.retries += 1
            return Later(self.frame, RETRY_S)
        if row.error_code:
            raise LoadError(f"{self.asked[0]}: {row}")
        if self.asked is PRODUCE:
            return self._end()
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self._write()

    def _write(self) -> bytes:
        if not self.left:
            self.done = True
            return b""
        self.left -= 1
        known = batches.Fields(producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=0)
        records = batches.batch([b"x" * 100], attributes=batches.TRANSACTIONAL, **known)
        data = {"index": self.partition, "records": records}
        topics = [{"name": self.topic, "partition_data": [data]}]
        return self._ask(
            PRODUCE, transactional_id=self.transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics
        )

    def _end(self) -> bytes:
        known = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        return self._ask(END, transactional_id=self.transactional_id, **known, committed=True)


def transactions(broker: Broker, scale: Scale) -> Figures:
    """Returns the rate, the broker's CPU, and how many of ten transactions waited for the previous markers."""
    topic = create_topic(broker, PRODUCERS)
    _run(broker, topic, 4)
    total = scale.small_records // SHARE
    return _run(broker, topic, total // PRODUCERS)


def _run(broker: Broker, topic: str, each: int) -> Figures:
    with Wire(broker.address, 60) as wire:
        asked = {"key": "bench-txn", "key_type": kinds.TRANSACTION}
        settled(lambda: wire.ask("FindCoordinator", 3, **asked), error_codes.COORDINATOR_NOT_READY, "the coordinator")
    clients = [Transactor(topic, place, each) for place in range(PRODUCERS)]
    before = processes.cpu(broker.pid)
    seconds = drive(broker, clients)
    cpu = processes.cpu(broker.pid) - before
    total = each * PRODUCERS
    return {"transactions_s": total / seconds, "transaction_cpu_us": cpu.total_s * 1e6 / total}
