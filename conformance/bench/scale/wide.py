"""Gives the suite's cases a broker with very many partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

from conformance.bench.cases import LoadError
from conformance.bench.cluster.width import leaders
from conformance.bench.scale.spent import PATIENCE_S, Spent, asked
from conformance.bench.workers import wide_topics
from harness import processes
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire, decode_response, encode_request
from harness.servers.brokers import Broker
from harness.waiting import until

TIMEOUT_MS = 120_000


class Wide:
    """A fresh broker and the topics to create on it.

    empty_kib: its memory without topics.
    """

    def __init__(self, broker: Broker, partitions: int) -> None:
        self.broker = broker
        self.partitions = partitions
        self.topics: Mapping[str, int] = wide_topics(partitions)
        self.empty_kib = processes.rss_kib(broker.pid)

    def some(self, cap: int) -> Mapping[str, int]:
        """Returns the first topics, which have at most ``cap`` partitions together."""
        return wide_topics(min(cap, self.partitions))

    def ask(self, api: str, version: int, fields: Mapping[str, Any], items: int | None = None) -> tuple[Spent, Any]:
        """Repeats a request; returns its cost and its reply. ``items``: all partitions by default."""
        frame = encode_request(api, version, fields)
        found, reply = asked(self.broker, items or self.partitions, repeat(frame))
        return found, decode_response(api, version, reply)

    def tell(self, api: str, version: int, **fields: Any) -> Any:
        """Sends a request once; returns its cost and its reply."""
        with Wire(self.broker.address, PATIENCE_S) as wire:
            return wire.ask(api, version, **fields)

    def create(self, topics: Mapping[str, int]) -> None:
        """Creates topics by one request.

        Raises:
            LoadError: the broker refused one.
        """
        kept = {"replication_factor": 1, "assignments": [], "configs": []}
        rows = [{"name": name, "num_partitions": count, **kept} for name, count in topics.items()]
        reply = self.tell("CreateTopics", 4, topics=rows, timeout_ms=TIMEOUT_MS, validate_only=False)
        check(row.error_code for row in reply.topics)

    def delete(self, topics: Iterable[str]) -> None:
        """Deletes topics by one request, and waits until all are gone."""
        names = list(topics)
        reply = self.tell("DeleteTopics", 5, topic_names=names, timeout_ms=TIMEOUT_MS)
        check(row.error_code for row in reply.responses)
        asked_for = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
        gone = {error_codes.UNKNOWN_TOPIC_OR_PARTITION}
        self._until(lambda: {row.error_code for row in self.tell("Metadata", 12, **asked_for).topics} == gone)

    def wait_served(self, topics: Mapping[str, int]) -> None:
        """Waits until every partition has a leader and each topic's last partition answers."""
        with Wire(self.broker.address, PATIENCE_S) as wire:
            for name, count in topics.items():
                self._until(lambda name=name, count=count: self._is_led(name, count))  # type: ignore[misc]
                wire.end_offset(name, count - 1)

    def _is_led(self, name: str, count: int) -> bool:
        found = [leader for leader, _ in leaders(self.broker.port, name)]
        return len(found) == count and min(found) >= 0

    def _until(self, holds: Callable[[], bool]) -> None:
        until(holds, "the broker to know its topics", PATIENCE_S, 0.005)


def check(codes: Iterable[int]) -> None:
    """Raises LoadError if one of these codes is an error."""
    if errors := {code for code in codes if code}:
        raise LoadError(f"error codes {sorted(errors)}")


def rows(topics: Mapping[str, int], **fields: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """Returns topics with a copy of ``fields`` for each partition; the field that is None gets the partition's number.
    """
    [number] = [name for name, value in fields.items() if value is None]
    return [(topic, [{**fields, number: index} for index in range(count)]) for topic, count in topics.items()]
