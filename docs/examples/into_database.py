"""A sample application: records of a topic go into a database, each exactly once, until SIGTERM or Ctrl-C.

    python docs/examples/into_database.py ADDRESS TOPIC sqlite:flights.db --keep rows
    python docs/examples/into_database.py ADDRESS TOPIC postgresql://localhost/flights --keep totals

Kafka's transactions end where the database begins; there are two ways across:

* ``rows``: each record is a row whose key is <topic, partition, offset>. It is read at least once, and a row that is
  there already stays as it is. The group's offset is committed after the rows.
* ``totals``: a result that cannot be written twice. The offset is a row too, changed in the same transaction as the
  result; a partition that is assigned begins there. A consumer that has lost its partition without knowing finds the
  offset changed, and gives up.
"""

from __future__ import annotations

import argparse
import signal
import sqlite3
import sys
from collections.abc import Collection, Sequence
from itertools import groupby
from types import FrameType
from typing import Any

from pyclient import Consumer, KafkaError, Record, TopicPartition
from pyclient.errors import WakeupError

TABLES = (
    "CREATE TABLE IF NOT EXISTS entry (topic TEXT, part INTEGER, place BIGINT, value TEXT,"
    " PRIMARY KEY (topic, part, place))",
    "CREATE TABLE IF NOT EXISTS total (topic TEXT, part INTEGER, count BIGINT, next BIGINT, PRIMARY KEY (topic, part))",
)


class Overtaken(RuntimeError):
    """Another member has written this partition's total meanwhile."""


class Database:
    """SQLite or PostgreSQL; a transaction begins with the first statement."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite:")
        self._connection = self._connect(url)
        for table in TABLES:
            self.run(table)
        self.commit()

    def _connect(self, url: str) -> Any:
        if self.is_sqlite:
            return sqlite3.connect(url.removeprefix("sqlite:"), timeout=60)
        import psycopg

        return psycopg.connect(url)

    def run(self, statement: str, *values: object) -> Any:
        """One statement, with ``?`` for values; its cursor."""
        return self._connection.execute(statement if self.is_sqlite else statement.replace("?", "%s"), values)

    def commit(self) -> None:
        """All of it, or, where this process dies before, nothing."""
        self._connection.commit()


class Rows:
    """The way ``rows``."""

    def __init__(self, database: Database, consumer: Consumer) -> None:
        self._database = database
        self._consumer = consumer

    def write(self, records: Sequence[Record]) -> None:
        """The rows first, then the group's offsets: what comes again changes nothing."""
        for record in records:
            self._database.run(
                "INSERT INTO entry (topic, part, place, value) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                *(record.topic, record.partition, record.offset, (record.value or b"").decode(errors="replace")),
            )
        self._database.commit()
        self._consumer.commit()


class Totals:
    """The way ``totals``."""

    def __init__(self, database: Database, consumer: Consumer) -> None:
        self._database = database
        self._consumer = consumer
        self._next: dict[tuple[str, int], int] = {}

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Each begins where its total ends."""
        for partition in partitions:
            self._database.run("INSERT INTO total VALUES (?, ?, 0, 0) ON CONFLICT DO NOTHING", *partition)
            row = self._database.run("SELECT next FROM total WHERE topic = ? AND part = ?", *partition).fetchone()
            self._next[partition] = row[0]
            self._consumer.seek(partition, row[0])
        self._database.commit()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """All that was read is written."""
        for partition in partitions:
            self._next.pop(partition, None)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Others may have gone on already; they find the offset that we left."""
        self.on_partitions_revoked(partitions)

    def write(self, records: Sequence[Record]) -> None:
        """Result and offset in one transaction."""
        for place, group in groupby(records, lambda record: (record.topic, record.partition)):
            self._add(place, list(group))
        self._database.commit()

    def _add(self, place: tuple[str, int], records: Sequence[Record]) -> None:
        """Raises Overtaken."""
        last = records[-1].offset + 1
        changed = self._database.run(
            "UPDATE total SET count = count + ?, next = ? WHERE topic = ? AND part = ? AND next = ?",
            *(len(records), last, *place, self._next[place]),
        )
        if changed.rowcount != 1:
            raise Overtaken(f"{place}: another instance went on from offset {self._next[place]}")
        self._next[place] = last


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("database", help="sqlite:FILE, or a URL of PostgreSQL")
    parser.add_argument("--keep", choices=["rows", "totals"], default="rows")
    parser.add_argument("--name", default="writer-1", help="of this member; each has another one")
    options = parser.parse_args()
    consumer = Consumer(
        options.address,
        group_id=f"into-database-{options.keep}",
        group_instance_id=options.name,  # a member that comes back under its name gets its partitions at once
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )

    def stop(signum: int, frame: FrameType | None) -> None:
        consumer.wakeup()

    signal.signal(signal.SIGTERM, stop)
    with consumer:
        way = (Rows if options.keep == "rows" else Totals)(Database(options.database), consumer)
        consumer.subscribe([options.topic], listener=way if isinstance(way, Totals) else None)
        try:
            while True:
                records = consumer.poll(timeout=1.0)
                if records:
                    way.write(list(records))
        except (WakeupError, KeyboardInterrupt):
            return 0
        except (KafkaError, Overtaken) as error:
            print(f"into_database: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
