"""Decides about batches when their request is answered or lost, or when their time is over.

A batch is done, waits to be sent again, is split because it is too large, or fails. The most important fact is whether
it may have been written. If that is unknown, the batch is sent again unchanged (``maybe_written``). If it was not
written, its sequences are free again. Results are reported in the order in which the batches were first sent
(``pyclient.producer.in_flight``).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from cy.counted import counted
from cy.produce.phase import ARRIVED, FAILED, UNDER_WAY, WRITTEN
from cy.produce.producer_batch import ProducerBatch
from cy.produce.record_queues import RecordQueues
from pyclient.core.backoff import delay
from pyclient.core.reports.rare import RareLog
from pyclient.core.tasks import raise_on
from pyclient.errors import (
    NOT_APPENDED,
    OUT_OF_SEQUENCE,
    STALE_METADATA,
    TOO_LARGE,
    ClientError,
    ConnectionFailed,
    KafkaError,
    RequestTimedOut,
    of_code,
)
from pyclient.producer.in_flight import Lane, Verdict
from pyclient.producer.settings import Settings
from pyclient.protocol import Produce
from pyclient.protocol.errors import DuplicateSequenceNumber, InvalidProducerEpoch, UnknownTopicId
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.client import Client
    from pyclient.producer.identity import Identities

UNHEARD: Final = (
    "%s: %s not delivered: %s (%s). The application does not ask for the result: give send a callback (on_delivery), "
    "or wait for what it returns"
)
TOLD_FROM: Final = 4
"""The attempt from which retries are logged. Fewer are usual while a leader is elected."""

log = logging.getLogger("pyclient.producer")

Sent = list[tuple[Lane, ProducerBatch]]
"""The batches of one request, each with its lane."""


class Outcomes:
    """Decides the outcomes of one sender's batches. ``again(lane)`` is called when a batch waits to be sent again."""

    def __init__(
        self,
        client: Client,
        queues: RecordQueues,
        settings: Settings,
        identities: Identities,
        again: Callable[[Lane], None],
    ) -> None:
        self.client = client
        self.queues = queues
        self.settings = settings
        self.identities = identities
        self._again = again
        self._rare = RareLog(log)

    # -- what came back ----------------------------------------------------------------------------

    def lost(self, sent: Sent, error: KafkaError) -> None:
        """Handles a request that was not answered, or never sent."""
        self._each(sent, self._lost, repeat(error))
        self.client.refresh(sent[0][1].topic)

    def _lost(self, lane: Lane, batch: ProducerBatch, error: KafkaError) -> None:
        if not isinstance(error, ConnectionFailed):
            batch.maybe_written = True
        if error.retriable:
            self._retry(lane, batch, error)
        else:
            self.refuse(lane, batch, error)

    def unanswered(self, sent: Sent) -> None:
        """Completes batches with acks=0, which get no answer."""
        self._each(sent, self._left, repeat(None))

    def _left(self, lane: Lane, batch: ProducerBatch, _: None) -> None:
        self._complete(lane, batch, -1, -1)

    def served(self, sent: Sent, response: Produce.Response) -> None:
        """Handles the broker's answer."""
        self._each(sent, self._row, self._rows(sent, response))

    def _each(
        self, sent: Sent, decide: Callable[[Lane, ProducerBatch, Any], None], facts: Iterable[Any]
    ) -> None:
        """Decides each batch of a request; an error with one does not affect the others."""
        for lane, batch in sent:
            lane.arrive(batch)
        for (lane, batch), fact in zip(sent, facts, strict=False):
            try:
                decide(lane, batch, fact)
            except Exception as fault:
                log.exception("%r: the answer could not be processed", batch)
                batch.maybe_written = True
                error = ClientError(f"{batch.topic}-{batch.partition}: {fault!r} while the answer was processed")
                self._take_out(lane, batch, error)
            if lane.halted:
                for doubtful in lane.doubtful():
                    self._take_out(lane, doubtful, doubtful.last_error)

    def _take_out(self, lane: Lane, batch: ProducerBatch, error: KafkaError) -> None:
        """Fails the batch. If that raises an error too, its callers are still told."""
        try:
            lane.arrive(batch)
            self.refuse(lane, batch, error)
        except Exception:
            log.exception("%r: its failure could not be reported", batch)
            lane.forget(batch)
            self._tell_failure(batch, error, None)
            with suppress(Exception):  # this may be the error that was just logged
                self.queues.release(batch)

    def _rows(self, sent: Sent, response: Produce.Response) -> list[Any]:
        """Returns the answer for each of the batches, None if there is none."""
        topics = response.responses
        if len(sent) == 1 and len(topics) == 1:
            rows: list[Any] = topics[0].partition_responses
            if len(rows) == 1 and rows[0].index == sent[0][1].partition:
                return rows
        name_of = self.client.cluster.topic_name
        found = {
            (topic.name or name_of(topic.topic_id), row.index): row
            for topic in topics
            for row in topic.partition_responses
        }
        return [found.get((batch.topic, batch.partition)) for _, batch in sent]

    def _row(self, lane: Lane, batch: ProducerBatch, row: Any) -> None:
        if row is None:
            batch.maybe_written = True
            self._retry(lane, batch, UnknownTopicId())
        elif row.error_code == 0:
            self._written(lane, batch, row.base_offset, row.log_append_time_ms)
        elif row.error_code == DuplicateSequenceNumber.code:
            self._written(lane, batch, -1, row.log_append_time_ms)
        else:
            self._failed(lane, batch, row)

    def _written(self, lane: Lane, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        """Handles the answer that the batch is in the log."""
        lane.acknowledged = True
        if lane.halted:
            for other in lane.follows(batch):
                self._complete(lane, other, -1, -1)
        self._complete(lane, batch, base_offset, log_append_time)

    def _failed(self, lane: Lane, batch: ProducerBatch, row: Any) -> None:
        """Handles an error for the batch."""
        error = self._refusal(batch, row)
        batch.maybe_written = batch.maybe_written or error.name not in NOT_APPENDED
        is_old = isinstance(error, InvalidProducerEpoch) and lane.identity is not None
        if is_old or error.name in OUT_OF_SEQUENCE:
            self._sequence_error(lane, batch, error)
        elif error.name in TOO_LARGE and self._may_split(lane, batch):
            self._split(lane, batch, error)
        elif error.retriable:
            moved = error.name in STALE_METADATA and self._new_leader(batch, row)
            if error.name in STALE_METADATA and not moved:
                self.client.refresh(batch.topic)
            self._retry(lane, batch, error, at_once=moved)
        else:
            self.refuse(lane, batch, error, _record_errors(row, error))

    def _refusal(self, batch: ProducerBatch, row: Any) -> KafkaError:
        id = self.settings.transactional_id
        return self.client.rights.told(_refusal(batch, row), topic=batch.topic, transactional_id=id)

    def _new_leader(self, batch: ProducerBatch, row: Any) -> bool:
        """Applies the new leader in the answer (KIP-951). Returns True if it was not known."""
        leader = row.current_leader
        if leader is None or leader.leader_id < 0:
            return False
        tp = TopicPartition(batch.topic, batch.partition)
        return self.client.cluster.leader_changed(tp, leader.leader_id, leader.leader_epoch)

    def _sequence_error(self, lane: Lane, batch: ProducerBatch, error: KafkaError) -> None:
        if lane.proves(batch):
            self._complete(lane, batch, -1, -1)
            return
        halted = lane.out_of_order(batch) is Verdict.HALTED
        if halted and self.settings.transactional_id is not None and not self.identities.is_over:
            self.refuse(lane, batch, error)
        else:
            self._retry(lane, batch, error, at_once=halted and type(batch.last_error) is not type(error))

    def _may_split(self, lane: Lane, batch: ProducerBatch) -> bool:
        """Returns whether the batch may be split. Not if it may be in the log: brokers would not recognise its parts.
        """
        if batch.count == 1 or batch.is_decided:
            return False
        return lane.identity is None or not batch.maybe_written

    def _split(self, lane: Lane, batch: ProducerBatch, error: KafkaError) -> None:
        """Splits the batch. The parts are sent at once; parts of a part wait for a back-off."""
        is_part = batch.last_error is not None and batch.last_error.code == error.code
        parts = lane.split(batch, max(1, batch.plain_size // 2))
        self.queues.release(batch)
        for part in parts:
            self.queues.charge(part)
            part.last_error = error
            part.retry_at = self.client.clock() + self.settings.backoff if is_part else 0.0
        self._again(lane)

    def _retry(
        self, lane: Lane, batch: ProducerBatch, error: KafkaError | None, *, at_once: bool = False
    ) -> None:
        """Lets the batch wait for another attempt, or fails it."""
        now = self.client.clock()
        assert error is not None
        if self.identities.is_over and not batch.is_decided:
            refusal = self.identities.refusal()
            refusal.__cause__ = refusal.__cause__ or error
            self.refuse(lane, batch, refusal)
        elif batch.is_decided or batch.attempts > self.settings.retries:
            self.refuse(lane, batch, error)
        else:
            batch.last_error = error
            wait = delay(self.settings.backoff, self.settings.max_backoff, batch.attempts - 1)
            batch.retry_at = now if at_once else now + wait
            lane.wait(batch)
            self._again(lane)
            if batch.attempts >= TOLD_FROM:
                self._rare.warning("%s-%d is sent again: %s (%s)", batch.topic, batch.partition, error, error.name)

    # -- done --------------------------------------------------------------------------------------

    def overdue(self, lane: Lane, limit: float) -> None:
        """Fails the batches that were created before ``limit``, the time that is delivery.timeout.ms ago."""
        self.give_up(lane, limit, lambda batch: _overdue(batch, self.settings))

    def give_up(self, lane: Lane, limit: float, why: Callable[[ProducerBatch], KafkaError]) -> None:
        """Fails, in order, the batches created before ``limit``, whether they wait or are in flight."""
        for batch in (*lane.batches, *lane.queue.batches()):
            if batch.created >= limit or batch.is_decided or batch.phase is ARRIVED:
                continue
            if batch.phase is not UNDER_WAY:
                self.refuse(lane, batch, why(batch))
            elif lane.proves(batch):
                self._settle(lane, batch, -1, -1)
            else:
                self.fail(lane, batch, why(batch))

    def refuse(
        self,
        lane: Lane,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """Fails the batch, which is not in flight."""
        lane.take(batch)
        if lane.proves(batch):
            self._complete(lane, batch, -1, -1)
            return
        lane.refused(batch)
        self.fail(lane, batch, error, record_errors)
        self.queues.release(batch)

    def _complete(self, lane: Lane, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        """Completes the batch as delivered, and frees its memory."""
        self.queues.release(batch)
        if lane.leaves_alone(batch):
            self._tell(batch, base_offset, log_append_time)
        else:
            self._settle(lane, batch, base_offset, log_append_time)

    def _settle(self, lane: Lane, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        """Notes that the batch is delivered, and reports it in its turn."""
        lane.decide(batch, WRITTEN, partial(self._tell, batch, base_offset, log_append_time))
        self._tell_due(lane)

    def _tell(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        if not batch.done:
            batch.complete(base_offset, log_append_time)
            batch.run_callbacks(self._callback_failed)

    def fail(
        self,
        lane: Lane,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """Fails a batch, perhaps while it is in flight. Tells its transaction at once, and its callers in its turn;
        each only once.
        """
        is_news = not batch.is_decided
        lane.decide(batch, FAILED, partial(self._tell_failure, batch, error, record_errors))
        if is_news:
            self.identities.batch_failed(batch, error)
        self._tell_due(lane)

    def _tell_failure(
        self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, KafkaError] | None
    ) -> None:
        if not batch.done:
            if not batch.is_heard and self.settings.transactional_id is None:  # a transaction's commit reports it
                self._say(batch, error)
            batch.fail(error, record_errors)
            batch.run_callbacks(self._callback_failed)

    def _say(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Logs a failure that the application would not notice."""
        records = counted(batch.count, "record was", "records were")
        where = f"{batch.topic}-{batch.partition}"
        why = str(error).removeprefix(f"{where}: ")
        self._rare.warning(UNHEARD, where, records, why, error.name, error=error.name)

    def _tell_due(self, lane: Lane) -> None:
        """Reports all results whose turn has come."""
        while lane.batches and (tell := lane.due()) is not None:
            tell()

    def _callback_failed(self, callback: Any) -> None:
        """Logs the exception of a delivery callback."""
        self._rare.exception("the delivery callback %r failed", callback)
        raise_on(self.client.loop, sys.exception())


def _overdue(batch: ProducerBatch, settings: Settings) -> KafkaError:
    """Returns the timeout error, with the result of the last attempt."""
    if batch.last_error is not None:
        why = f"after {counted(batch.attempts, 'attempt')}, the last: {batch.last_error}"
    else:
        why = "its request was not answered" if batch.attempts else "it was never sent"
    where = f"{batch.topic}-{batch.partition}"
    error = RequestTimedOut(
        f"{where}: not delivered within delivery.timeout.ms={settings.delivery_timeout * 1000:.0f}: {why}"
    )
    error.__cause__ = batch.last_error
    return error


def _refusal(batch: ProducerBatch, row: Any) -> KafkaError:
    """Returns the broker's error with the partition; if the batch is too large, also with its size."""
    error = of_code(row.error_code, row.error_message)
    assert error is not None
    what = f"{batch.topic}-{batch.partition}"
    if error.name in TOO_LARGE:
        what += f": a batch of {counted(batch.count, 'record')} and {batch.plain_size} bytes (before compression)"
        limit = "the topic's max.message.bytes, by `pybroker config set topic`, or the broker's message.max.bytes"
        return type(error)(f"{what}: {str(error).rstrip('.')}: raise {limit}")
    return type(error)(f"{what}: {error}")


def _record_errors(row: Any, error: KafkaError) -> dict[int, KafkaError] | None:
    """Returns the errors of single records (KIP-467)."""
    if not row.record_errors:
        return None
    return {
        each.batch_index: type(error)(each.batch_index_error_message or str(error))
        for each in row.record_errors
    }
