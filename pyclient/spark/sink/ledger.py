"""The ledger: the topic in which runs claim queries and decide batches.

It has one partition, because the order of its records counts. It is compacted, because only the last state of a query
is needed. Its segments are small, so that reading all of it is fast. A reader must read all of it, because without the
claim before it, a late decision looks like any other. Each process reads a record only once. The ledger has as many
replicas as the cluster's transaction log.

    key    query/run
    value  JSON of ``exactly_once.Record``; null: buried
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from types import TracebackType
from typing import Final, Self

import msgspec

from pyclient.admin import Admin, NewTopic
from pyclient.admin.types import ConfigResource, ResourceType
from pyclient.consumer import Consumer
from pyclient.errors import ConfigError, RequestTimedOut
from pyclient.producer.blocking import Producer
from pyclient.protocol.errors import TopicAlreadyExists
from pyclient.spark.sink.exactly_once import Record, State, replay
from pyclient.topic_partition import TopicPartition

PATIENCE_S: Final = 60.0
SEGMENT_BYTES: Final = 4 << 20
FETCH_WAIT_MS: Final = 10
"""The most milliseconds that a fetch waits for records, because later requests on the connection wait behind it."""


class Ledger:
    """The ledger in one topic. Its methods block, and raise KafkaError."""

    def __init__(self, client: Mapping[str, str], topic: str, admin: Admin) -> None:
        """``client`` has the settings that all clients share."""
        self.topic = topic
        self._place = TopicPartition(topic, 0)
        self._client = client
        self._admin = admin
        self._create()
        settings = {"auto.offset.reset": "none", "fetch.max.wait.ms": str(FETCH_WAIT_MS)}
        self._clients = ExitStack()
        self._consumer = Consumer(config={**client, **settings})
        self._clients.callback(self._consumer.close)
        self._consumer.assign([self._place])
        self._consumer.pause([self._place])
        self._producer: Producer | None = None
        self._appended = 0
        """The offset after the last record that was appended here."""
        self._known: dict[str, tuple[int, State]] = {}
        """The states of queries, and the offsets up to which they were read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.close()

    def _create(self) -> None:
        """Creates the topic if it is missing. Raises ConfigError if the topic is not compacted."""
        if not self._admin.describe_topics(self.topic, check=False).errors:
            policy = self._config(ResourceType.TOPIC, self.topic)["cleanup.policy"]
            if policy != "compact":
                raise ConfigError(
                    f"ledgerTopic {self.topic} has cleanup.policy={policy}: it must be compact, else what is written "
                    "is forgotten, and written again"
                )
            return
        brokers = self._admin.describe_cluster().brokers
        found = self._config(ResourceType.BROKER, str(brokers[0].id))
        replicas = min(int(found.get("transaction.state.log.replication.factor") or 3), len(brokers))
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.insync.replicas": str(min(int(found.get("transaction.state.log.min.isr") or 2), replicas)),
        }
        with suppress(TopicAlreadyExists):
            self._admin.create_topics(NewTopic(self.topic, 1, replicas, configs=configs))

    def _config(self, kind: ResourceType, name: str) -> dict[str, str | None]:
        resource = ConfigResource(kind, name)
        return {name: entry.value for name, entry in self._admin.describe_configs(resource)[resource].items()}

    # -- reading -----------------------------------------------------------------------------------

    def states(self) -> dict[str, State]:
        """Returns the state of every query in the ledger."""
        states: dict[str, State] = {}
        for query, run, record in self._records(*self._bounds()):
            if record is not None:
                states[query] = replay(states.get(query, State()), record)
            elif query in states and states[query].run == run:
                del states[query]
        return states

    def state(self, query: str) -> State:
        """Returns the state of a query."""
        begin, end = self._bounds()
        read, state = self._known.get(query, (begin, State()))
        state = reduce(replay, (record for _, _, record in self._records(read, end, query) if record), state)
        self._known[query] = max(read, end), state
        return state

    def _bounds(self) -> tuple[int, int]:
        """Returns the offsets to read. A new leader may not know yet that all replicas have the last record."""
        begin, end = (
            offsets([self._place])[self._place]
            for offsets in (self._consumer.beginning_offsets, self._consumer.end_offsets)
        )
        return begin, max(end, self._appended)

    def _records(self, start: int, end: int, only: str = "") -> Iterator[tuple[str, str, Record | None]]:
        """Yields query, run and record (None if buried) from offset ``start`` up to ``end``, for all queries or
        ``only`` one.
        """
        self._consumer.seek(self._place, start)
        self._consumer.resume([self._place])
        deadline = time.monotonic() + PATIENCE_S
        while self._consumer.position(self._place) < end:
            if time.monotonic() > deadline:
                raise RequestTimedOut(f"{self.topic} was not read up to offset {end} in {PATIENCE_S:.0f} s")
            for record in self._consumer.poll(timeout=0.2):
                query, run = bytes(record.key or b"/").decode().rsplit("/", 1)
                if record.offset < end and only in ("", query):
                    yield query, run, record.value and msgspec.json.decode(bytes(record.value), type=Record)
        self._consumer.pause([self._place])

    # -- writing -----------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Appends a record and returns when it is safe; ``state`` then shows its effect. If this raises, the record
        may still be appended later. Raises RequestTimedOut if no broker has answered.
        """
        self._send(record.query, [record.run], msgspec.json.encode(record))

    def bury(self, query: str, *runs: str) -> None:
        """Buries the last records of these runs, which are not needed any more."""
        self._send(query, runs, None)

    def _send(self, query: str, runs: Sequence[str], value: bytes | None) -> None:
        if self._producer is None:
            self._producer = Producer(config=self._client, acks="all", enable_idempotence=True, linger_ms=0)
            self._clients.callback(self._producer.close, 0)
        send = self._producer.send
        try:
            for sent in [send(self.topic, value=value, key=f"{query}/{run}".encode(), partition=0) for run in runs]:
                self._appended = sent.result(PATIENCE_S).offset + 1
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.topic} has not taken a record in {PATIENCE_S:.0f} s") from error
