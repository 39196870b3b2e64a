"""Reads a scenario's topic by PySpark with ``format("pybroker")``, which PySpark finds because it is installed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.clients.librdkafka import Served
from harness.waiting import until
from harness.witnesses import used

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("partition", "offset", "key", "value")
Options = Mapping[str, object]
#: Spark gives a Python process ten seconds, which are few on a busy machine.
LATE, ATTEMPTS = "Python worker failed to connect back", 5
PATIENCE_S = 240


class Row(NamedTuple):
    """A record, as Spark returns it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def offsets(topic: str, at: Mapping[int, int]) -> str:
    """Formats offsets by partition for ``startingOffsets`` and ``endingOffsets``."""
    return json.dumps({topic: {str(partition): offset for partition, offset in at.items()}})


def in_order(frame: DataFrame) -> list[Row]:
    """Returns a frame's rows by partition and offset."""
    return sorted(Row(*row.values()) for row in frame.select(*COLUMNS).toArrow().to_pylist())


def started(start: Callable[[], Any]) -> Any:
    """Starts a query; starts it once more if its Python did not come up in time."""
    for _ in range(ATTEMPTS):
        query = start()
        until(lambda: query.exception() or query.recentProgress or not query.isActive, "a query's begin", PATIENCE_S)  # noqa: B023
        if LATE not in str(query.exception()):
            break
    return query


class BySpark:
    """Reads topics: ``by_spark(broker, topic)`` is a batch of all that is there now."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def __call__(self, broker: Served, topic: str, options: Options | None = None) -> list[Row]:
        """Returns all rows of a topic, or those that the options select."""
        return in_order(self.frame(broker, topic, options))

    def values(self, broker: Served, topic: str, options: Options | None = None) -> list[bytes | None]:
        """Returns only the values."""
        return [row.value for row in self(broker, topic, options)]

    def frame(self, broker: Served, topic: str, options: Options | None = None) -> DataFrame:
        """Returns a batch of a topic that Spark has not read yet."""
        used("PySpark")
        frame: DataFrame = self._told(self.session.read, broker, topic, options).load()
        return frame

    def stream(self, broker: Served, topic: str, options: Options | None = None) -> DataFrame:
        """Returns an endless stream, by default from the beginning."""
        used("PySpark")
        more = {"startingOffsets": "earliest", **(options or {})}
        frame: DataFrame = self._told(self.session.readStream, broker, topic, more).load()
        return frame

    @contextmanager
    def reading(self, broker: Served, topic: str) -> Iterator[Reading]:
        """Reads a stream until the end of the block, into a table in memory."""
        name = f"seen_{topic.replace('-', '_').replace('.', '_')}"
        query = started(self.stream(broker, topic).writeStream.format("memory").queryName(name).start)
        try:
            yield Reading(self.session, name, query)
        finally:
            query.stop()
            self.session.catalog.dropTempView(name)

    @staticmethod
    def _told(reader: Any, broker: Served, topic: str, options: Options | None) -> Any:
        reader = reader.format("pybroker").option("kafka.bootstrap.servers", broker.bootstrap)
        for key, value in {"subscribe": topic, **(options or {})}.items():
            reader = reader.option(key, str(value))
        return reader


class Reading:
    """A running stream, and the rows that it has returned so far."""

    def __init__(self, session: SparkSession, name: str, query: Any) -> None:
        self._session = session
        self._name = name
        self._query = query

    def rows(self) -> list[Row]:
        """Returns the rows that have come so far."""
        return in_order(self._session.table(self._name))

    def await_rows(self, count: int, timeout_s: float = PATIENCE_S) -> list[Row]:
        """Waits for this many rows.

        Raises:
            StreamingQueryException: the query has failed.
        """

        def come() -> bool:
            if error := self._query.exception():
                raise error
            time.sleep(0.2)
            return bool(self._session.table(self._name).count() >= count)

        until(come, f"{count} rows in Spark", timeout_s)
        return self.rows()
