"""The writers that PySpark calls: on the driver for plan, commit and abort, in tasks for their rows.

PySpark pickles a writer for the tasks. It creates a stream's writer again for each commit, so the driver learns
everything it needs from the tasks' messages. The message of a failed task is None.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyclient.errors import ConfigError, KafkaError
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.producer.blocking import Producer
from pyclient.spark import archives
from pyclient.spark.api import StreamWriter
from pyclient.spark.options import Given, Use, read
from pyclient.spark.sink.checkpoint import query_of
from pyclient.spark.sink.commits import UNNAMED, Commits, Job
from pyclient.spark.sink.driver import driver
from pyclient.spark.sink.exactly_once import Deposed, Plan, State
from pyclient.spark.sink.producers import producer_of
from pyclient.spark.sink.rows import Rows, rows_of
from pyclient.spark.sink.settings import EXACTLY_ONCE, client_settings
from pyclient.spark.sink.transactions import Names

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from cy.produce.deliveries import Deliveries

log = logging.getLogger("pyclient.spark")
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
RUN_ID: Final = "spark.jobGroup.id"
"""The local properties of a stream's tasks. The job group is the run."""
RUNS: Final = 8
"""The number of runs that a process remembers. It reads the ledger again for any other run."""
_runs: dict[Job, tuple[State, Names]] = {}
Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's message to the driver."""

    rows: int
    job: Job | None = None
    """The task's transaction. None: at least once, so the driver need not do anything."""
    term: int = 0
    batch: int = 0
    transaction: PreparedTransaction | None = None


class AtLeastOnce:
    """Writes at least once: rows count when they are delivered, and a repeated task writes its rows again."""

    def __init__(self, rows: Rows, client: Mapping[str, str]) -> None:
        self._rows = rows
        self._client = client

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Returns when all rows are delivered. Raises KafkaError."""
        count = 0
        pending: deque[Deliveries] = deque()
        with producer_of(self._client) as producer:
            for batch in batches:
                pending.extend(self._rows.send(producer, batch))
                count += batch.num_rows
                while pending and pending[0].done:
                    pending.popleft().outcome()
            producer.flush()
            for deliveries in pending:
                deliveries.outcome()
        return Written(count)

    def commit(self, messages: Messages) -> None:
        """Does nothing, because everything is written already."""

    abort = commit


class ExactlyOnce:
    """Writes exactly once: rows count when the driver has decided the batch. See ``exactly_once``."""

    def __init__(
        self, rows: Rows, client: Mapping[str, str], given: Given, checkpoint: str | None, *, streaming: bool
    ) -> None:
        self._rows = rows
        self._checkpoint = checkpoint
        self._plan = Plan(int(time.time() * 1000), driver())
        write_id = None if streaming else given["writeId"]
        if write_id is not None and ("/" in write_id or write_id.startswith(UNNAMED)):
            raise ConfigError(f"option writeId={write_id}: it must not have a slash nor begin with {UNNAMED}")
        query = None if streaming else write_id or UNNAMED + uuid4().hex
        self._job = Job(
            tuple(sorted(client.items())),
            given["ledgerTopic"],
            given["transactionalIdPrefix"],
            query or "",
            "" if streaming else uuid4().hex,
            int(client["transaction.timeout.ms"]),
            streaming or write_id is not None,
            given["failOnDataLoss"],
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Writes the rows in a transaction and leaves it open. Writes nothing if the batch is already decided."""
        job, batch = self._task()
        state, names = _joined(job, self._plan)
        if batch <= state.batch:
            for _ in batches:
                pass
            return Written(0, job, state.term, batch)
        count, transaction = self._write(batches, job, names.take(batch))
        return Written(count, job, state.term, batch, transaction)

    def _task(self) -> tuple[Job, int]:
        """Returns this run of the query, and the batch."""
        if self._job.query:
            return self._job, 0
        context = TaskContext.get()
        found = [context and context.getLocalProperty(name) for name in (QUERY_ID, RUN_ID, BATCH_ID)]
        if not all(found):
            raise ConfigError(f"Spark gives the task no query, run and batch: {found}")
        query, run, batch = map(str, found)
        return self._job._replace(query=query, run=run), int(batch)

    def _write(
        self, batches: Iterator[pa.RecordBatch], job: Job, name: str
    ) -> tuple[int, PreparedTransaction | None]:
        count = 0
        with Producer(config={**dict(job.client), "transactional.id": name}) as producer:
            try:
                for batch in batches:
                    if batch.num_rows:
                        if not count:
                            producer.begin_transaction()
                        self._rows.send(producer, batch)
                        count += batch.num_rows
                return count, producer.prepare_transaction() if count else None
            except BaseException as error:
                _give_up(producer, error)
                raise

    def commit(self, messages: Messages) -> None:
        """Decides the batch of these messages, and ends its transactions."""
        written = _told(messages)
        if not written:
            return
        first = written[0]
        if first.job is None or len({(one.job, one.term, one.batch) for one in written}) > 1:
            raise Deposed("the tasks of the batch have not written in one run of the query")
        with Commits(first.job, self._plan) as commits:
            commits.commit(first.term, first.batch, [one.transaction for one in written if one.transaction])

    def abort(self, messages: Messages) -> None:
        """Withdraws the batch, if it is not decided. If a query is stopped during a batch, there are no messages; then
        this withdraws only what this driver has planned itself.
        """
        told = _told(messages)
        if told and told[0].job is not None:
            with Commits(told[0].job, self._plan) as commits:
                commits.abort(told[0].term)
        elif query := self._job.query or query_of(self._checkpoint):
            with Commits(self._job._replace(query=query), self._plan) as commits:
                commits.abort_own()


def _joined(job: Job, plan: Plan) -> tuple[State, Names]:
    """Returns this process's knowledge of a run. Only this run decides batches after that state's batch."""
    if job not in _runs:
        with Commits(job, plan) as commits:
            _runs[job] = commits.join(), Names(job.prefix, job.query, job.run)
        while len(_runs) > RUNS:
            del _runs[next(iter(_runs))]
    return _runs[job]


def _give_up(producer: Producer, error: BaseException) -> None:
    """Aborts the transaction, so that readers need not wait for its time-out. If this fails, the driver finds the
    transaction later.
    """
    try:
        producer.abort_transaction()
    except KafkaError as failure:
        error.add_note(f"its transaction could not be aborted: {failure}")


def _told(messages: Messages) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]


class BatchWriter(DataSourceArrowWriter):
    """Writes batches: Spark calls it for ``df.write``."""

    def __init__(self, delivery: AtLeastOnce | ExactlyOnce) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes the rows of a task."""
        archives.keep()
        return self._delivery.write(iterator)

    def commit(self, messages: Messages) -> None:
        """Commits the batch, after all tasks have succeeded."""
        self._delivery.commit(messages)

    def abort(self, messages: Messages) -> None:
        """Aborts the batch, after a task or ``commit`` has failed."""
        self._delivery.abort(messages)


class SinkStreamWriter(StreamWriter):
    """Writes the batches of a stream: Spark calls it for ``df.writeStream``."""

    def __init__(self, delivery: AtLeastOnce | ExactlyOnce) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes the rows of a task."""
        archives.keep()
        return self._delivery.write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # type: ignore[override]
        """Commits the batch, after all tasks have succeeded."""
        self._delivery.commit(messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # type: ignore[override]
        """Aborts the batch, after a task or ``commit`` has failed."""
        self._delivery.abort(messages)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Returns the writer of ``df.write``. Raises ConfigError for wrong options or columns."""
    return BatchWriter(_delivery(options, schema, overwrite, Use.BATCH_WRITE))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkStreamWriter:
    """Returns the writer of ``df.writeStream``. Raises ConfigError for wrong options or columns."""
    return SinkStreamWriter(_delivery(options, schema, overwrite, Use.STREAM_WRITE))


def _delivery(options: Mapping[str, str], schema: StructType, overwrite: bool, use: Use) -> Any:
    if overwrite:
        raise ConfigError(
            'a topic is appended to, never overwritten: mode("append"), or outputMode("append") of a stream'
        )
    given = read(options, use)
    rows = rows_of(schema, given["topic"])
    exactly_once = given["delivery"] == EXACTLY_ONCE
    client = client_settings(given.client, exactly_once=exactly_once)
    if exactly_once:
        return ExactlyOnce(rows, client, given, options.get("checkpointLocation"), streaming=use is Use.STREAM_WRITE)
    return AtLeastOnce(rows, client)
