"""The first part: a producer streams the data set, and a group of two consumers reads it at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from cy.produce.producer_batch import DeliveryReport
from pybroker.cli.common.verbs import Failure
from pybroker.cli.demo.dataset import Dataset, Tally
from pybroker.cli.demo.stage import Bars
from pyclient import Consumer, Producer

GROUP = "readers"
MEMBERS = 2
POLL_S = 0.1
POLL_RECORDS = 5000
PATIENCE_S = 60.0
"""If nothing changes for so many seconds, something is wrong, and the demo fails."""
LOOK_EVERY = 1000


class Streamed(NamedTuple):
    """Times in seconds from the first send: to the last acknowledgement, and to the last record that was read."""

    records: int
    size: int
    copied: int
    sent_s: float
    read_s: float
    found: str
    shares: list[int]


class Member(threading.Thread):
    """A consumer of the group, on a separate thread."""

    def __init__(self, bootstrap: str, topic: str, tally: Tally) -> None:
        super().__init__(name="demo-member", daemon=True)
        self.tally = tally
        self.count = 0
        self.partitions = 0
        self.error: BaseException | None = None
        self._where = bootstrap, topic
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            self._read(*self._where)
        except BaseException as error:  # ``_wait`` raises it
            self.error = error

    def _read(self, bootstrap: str, topic: str) -> None:
        with Consumer(
            bootstrap, group_id=GROUP, group_protocol="consumer", topics=[topic], auto_offset_reset="earliest"
        ) as consumer:
            while not self._stopped.is_set():
                records = consumer.poll(POLL_S, POLL_RECORDS)
                self.tally.add(records.values())
                self.count += len(records)
                self.partitions = len(consumer.assignment())

    def stop(self) -> None:
        """Commits and leaves the group soon."""
        self._stopped.set()


@contextmanager
def group(bootstrap: str, dataset: Dataset, partitions: int) -> Iterator[list[Member]]:
    """Yields members that share the topic's partitions; stops them at the end."""
    members = [Member(bootstrap, dataset.topic, dataset.tally()) for _ in range(MEMBERS)]
    for member in members:
        member.start()
    try:
        _wait(members, lambda: [member.partitions for member in members], [partitions // MEMBERS] * MEMBERS)
        yield members
    finally:
        for member in members:
            member.stop()
        for member in members:
            member.join(PATIENCE_S)


def stream(bootstrap: str, dataset: Dataset, limit: int, partitions: int, bars: Bars) -> Streamed:
    """Streams at most ``limit`` records. Raises KafkaError, Failure."""
    with group(bootstrap, dataset, partitions) as members:
        began = time.perf_counter()
        with Producer(bootstrap, compression_type="zstd", linger_ms=20, batch_size=1 << 17) as producer:
            count, size, copied = _send(producer, dataset, limit, members, bars)
            producer.flush(PATIENCE_S)
        bars["sent"] = count
        sent_s = time.perf_counter() - began
        _wait(members, lambda: _read(members, bars), count)
        read_s = time.perf_counter() - began
    tally = dataset.tally()
    for member in members:
        tally.merge(member.tally)
    return Streamed(count, size, copied, sent_s, read_s, tally.sentence(), [member.count for member in members])


def _send(producer: Producer, dataset: Dataset, limit: int, members: list[Member], bars: Bars) -> tuple[int, int, int]:
    """Sends records; returns their number, their bytes, and how many are to be copied.

    It keeps some delivery reports, whose errors explain records that are missing at the end.
    """
    samples: list[DeliveryReport] = []
    topic = dataset.topic
    count = size = copied = 0
    for item in islice(dataset.items(), limit):
        report = producer.send(topic, item.value, item.key)
        count += 1
        size += len(item.value)
        copied += item.is_copied
        if count % LOOK_EVERY == 1:
            samples.append(report)
            bars["sent"] = count
            _read(members, bars)
    for report in samples:
        report.result(PATIENCE_S)
    return count, size, copied


def _read(members: list[Member], bars: Bars) -> int:
    bars["read"] = sum(member.count for member in members)
    return bars["read"]


def _wait(members: list[Member], state: Callable[[], object], wanted: object) -> None:
    """Waits until the members have reached the state. Raises the error of a member, or Failure if nothing moves any
    longer.
    """
    last: object = None
    deadline = 0.0
    while (now := state()) != wanted:
        for member in members:
            if member.error is not None:
                raise member.error
        if now != last:
            last, deadline = now, time.monotonic() + PATIENCE_S
        if time.monotonic() > deadline:
            seen = f"at {now}, not {wanted}, for {PATIENCE_S:.0f} s"
            raise Failure(f"the group made no progress: it was {seen}: is the machine very busy?")
        time.sleep(0.01)
