"""The second part: a worker copies some records from topic to topic, exactly once, though it fails on the way.

Each transaction has the copies and the offsets up to which the source was read: both are committed, or neither is.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from pybroker.cli.demo.dataset import Dataset
from pybroker.cli.demo.stage import Bars
from pyclient import Consumer, Producer, TopicPartition

GROUP = "copier"
TRANSACTIONS = 8
"""The approximate number of transactions. The third one fails."""
FAILS_AT = 3
POLL_S = 1.0


class Crash(Exception):
    """The planned failure of the worker."""


class Copied(NamedTuple):
    """transactions: how many were committed. written: how many copies, including aborted ones. visible: how many copies
    a read_committed consumer sees.
    """

    transactions: int
    aborted: int
    written: int
    visible: int
    seconds: float


def target_of(dataset: Dataset) -> str:
    """Names the topic of the copies."""
    return f"{dataset.topic}-copied"


def copy(bootstrap: str, dataset: Dataset, count: int, bars: Bars) -> Copied:
    """Copies the chosen ones among ``count`` records. Raises KafkaError."""
    began = time.perf_counter()
    worker = Worker(dataset, max(1, count // TRANSACTIONS))
    while worker.read < count:
        try:
            worker.work(bootstrap, count, bars)
        except Crash:
            worker.aborted += 1
    seconds = time.perf_counter() - began
    visible = committed(bootstrap, target_of(dataset))
    return Copied(worker.transactions, worker.aborted, worker.written, visible, seconds)


class Worker:
    """Reads, copies and commits. After a failure, ``work`` may be called again, and continues where it failed."""

    def __init__(self, dataset: Dataset, step: int) -> None:
        self.dataset = dataset
        self.step = step
        self.read = self.written = self.transactions = self.aborted = 0

    def work(self, bootstrap: str, count: int, bars: Bars) -> None:
        """Runs until ``count`` records are copied. Raises Crash once."""
        topic = self.dataset.topic
        with (
            Consumer(
                bootstrap, group_id=GROUP, topics=[topic], auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer,
            Producer(bootstrap, transactional_id="demo-copier") as producer,
        ):
            while self.read < count:
                with producer.transaction():
                    done = self._copy_some(consumer, producer, min(self.step, count - self.read))
                    producer.send_offsets(consumer.positions(), consumer.group_metadata())
                    if self.transactions + 1 == min(FAILS_AT, count) and not self.aborted:
                        raise Crash
                self.transactions += 1
                self.read += done
                bars["copied"] = self.read

    def _copy_some(self, consumer: Consumer, producer: Producer, wanted: int) -> int:
        done = 0
        while done < wanted:
            values = consumer.poll(POLL_S, wanted - done).values()
            chosen = list(filter(self.dataset.is_copied, values))
            producer.send_many(target_of(self.dataset), chosen)
            self.written += len(chosen)
            done += len(values)
        return done


def committed(bootstrap: str, topic: str) -> int:
    """Counts the records that a read_committed consumer sees."""
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        count = 0
        while any(consumer.position(place) < end for place, end in ends.items()):
            count += len(consumer.poll(POLL_S))
        return count
