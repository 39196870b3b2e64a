"""What becomes of batches once their request is answered, or lost, or their time is over.

A batch is done, waits to go again, is split because the broker finds it too large, or is refused for
good. The one thing that counts more than all others: whether it may have been written. If nobody
knows, it goes again as it was (``maybe_written``); if it was not, its sequences are free again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cy.producer_batch import ProducerBatch
from cy.record_queues import RecordQueues
from pyclient.core.backoff import delay
from pyclient.core.rare import RareLog
from pyclient.errors import ClientError, ConnectionFailed, KafkaError, RequestTimedOut, of_code
from pyclient.producer.lane import Lane, Verdict
from pyclient.producer.settings import Settings
from pyclient.protocol import Produce
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.client import Client
    from pyclient.producer.identity import Identities

log = logging.getLogger("pyclient.producer")

STALE = frozenset((3, 5, 6, 9, 56, 72, 74, 75, 100, 103))
"""Codes after which the metadata is asked for again."""
APPENDED = frozenset((7, 20))
"""REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND: it is in the leader's log."""
SEQUENCE = frozenset((45, 59))
DUPLICATE = 46
INVALID_PRODUCER_EPOCH = 47
TOO_LARGE = frozenset((10, 18))

Sent = list[tuple[Lane, ProducerBatch]]
"""The batches of a request, and where they belong."""


class Outcomes:
    """Of one sender. ``again(lane)`` is called when a batch waits to be sent again."""

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
        """The request was not answered, or never sent."""
        self._each(sent, lambda lane, batch: self._lost(lane, batch, error))
        self.client.refresh(sent[0][1].topic)

    def _lost(self, lane: Lane, batch: ProducerBatch, error: KafkaError) -> None:
        if not isinstance(error, ConnectionFailed):
            batch.maybe_written = True
        if error.retriable:
            self._retry(lane, batch, error)
        else:
            self.refuse(lane, batch, error)

    def unanswered(self, sent: Sent) -> None:
        """acks=0: the request is sent, and that is all."""
        self._each(sent, lambda _, batch: self._complete(batch, -1, -1))

    def served(self, sent: Sent, response: Produce.Response) -> None:
        """The broker has answered."""
        found = self._rows(sent, response)
        self._each(
            sent,
            lambda lane, batch: self._row(
                lane, batch, found.get((batch.topic, batch.partition)), response
            ),
        )

    def _each(self, sent: Sent, decide: Callable[[Lane, ProducerBatch], None]) -> None:
        """None of the batches is under way any more; what one of them meets is not the others' matter."""
        for lane, batch in sent:
            lane.arrive(batch)
        for lane, batch in sent:
            try:
                decide(lane, batch)
            except Exception as fault:
                log.exception("%r: what was answered could not be dealt with", batch)
                batch.maybe_written = True
                error = ClientError(f"{batch.topic}-{batch.partition}: {fault!r} while the answer was read")
                self.refuse(lane, batch, error)

    def _rows(self, sent: Sent, response: Produce.Response) -> dict[tuple[Any, int], Any]:
        """What is answered, by topic and partition."""
        if len(sent) == 1 and len(response.responses) == 1:
            rows = response.responses[0].partition_responses
            batch = sent[0][1]
            if len(rows) == 1 and rows[0].index == batch.partition:
                return {(batch.topic, batch.partition): rows[0]}
        name_of = self.client.cluster.topic_name
        return {
            (topic.name or name_of(topic.topic_id), row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }

    def _row(self, lane: Lane, batch: ProducerBatch, row: Any, response: Produce.Response) -> None:
        if row is None:
            batch.maybe_written = True
            self._retry(lane, batch, of_code(100))
        elif row.error_code == 0:
            lane.acknowledged = True
            self._complete(batch, row.base_offset, row.log_append_time_ms)
        elif row.error_code == DUPLICATE:
            lane.acknowledged = True
            self._complete(batch, -1, row.log_append_time_ms)
        else:
            self._failed(lane, batch, row, response)

    def _failed(
        self, lane: Lane, batch: ProducerBatch, row: Any, response: Produce.Response
    ) -> None:
        """The broker has refused the batch, or says that something about it is not done yet."""
        code = row.error_code
        error = of_code(code, row.error_message)
        assert error is not None
        if code in SEQUENCE or (code == INVALID_PRODUCER_EPOCH and lane.identity is not None):
            self._sequence_error(lane, batch, error)
        elif code in TOO_LARGE and batch.count > 1 and not batch.done:
            self._split(lane, batch)
        elif error.retriable:
            batch.maybe_written = batch.maybe_written or code in APPENDED
            moved = code in STALE and self._new_leader(batch, row, response)
            if code in STALE and not moved:
                self.client.refresh(batch.topic)
            self._retry(lane, batch, error, at_once=moved)
        else:
            self.refuse(lane, batch, error, _record_errors(row, error))

    def _new_leader(self, batch: ProducerBatch, row: Any, response: Produce.Response) -> bool:
        """The answer names the leader (KIP-951). True if that is news."""
        leader = row.current_leader
        if leader is None or leader.leader_id < 0:
            return False
        tp = TopicPartition(batch.topic, batch.partition)
        return self.client.cluster.leader_changed(tp, leader.leader_id, leader.leader_epoch)

    def _sequence_error(self, lane: Lane, batch: ProducerBatch, error: KafkaError) -> None:
        batch.maybe_written = False
        if lane.out_of_order(batch) is Verdict.RETRY:
            self._retry(lane, batch, error)
        elif self.settings.transactional_id is not None:
            self.refuse(lane, batch, error)
        else:
            self._retry(lane, batch, error, at_once=True)

    def _split(self, lane: Lane, batch: ProducerBatch) -> None:
        parts = lane.split(batch, max(1, batch.plain_size // 2))
        self.queues.release(batch)
        for part in parts:
            self.queues.charge(part)
        self._again(lane)

    def _retry(
        self, lane: Lane, batch: ProducerBatch, error: KafkaError | None, *, at_once: bool = False
    ) -> None:
        """Puts the batch back, if it may go again."""
        now = self.client.clock()
        assert error is not None
        if self.identities.is_over and not batch.done:
            refusal = self.identities.refusal()
            refusal.__cause__ = refusal.__cause__ or error
            self.refuse(lane, batch, refusal)
        elif batch.done or batch.attempts > self.settings.retries:
            self.refuse(lane, batch, error)
        else:
            batch.last_error = error
            wait = delay(self.settings.backoff, self.settings.max_backoff, batch.attempts - 1)
            batch.retry_at = now if at_once else now + wait
            lane.queue.put_back(batch)
            self._again(lane)

    # -- done --------------------------------------------------------------------------------------

    def overdue(self, lane: Lane, limit: float) -> None:
        """Fails what is older than ``limit``, delivery.timeout.ms ago."""
        for batch in tuple(lane.in_flight):
            if batch.created < limit:
                self.fail(batch, _overdue(batch, self.settings))
        while (head := lane.queue.first()) is not None and head.created < limit:
            lane.queue.remove(head)
            self.refuse(lane, head, _overdue(head, self.settings))

    def refuse(
        self,
        lane: Lane,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """The batch will not be sent again."""
        if not batch.maybe_written:
            lane.refused(batch)
        self.fail(batch, error, record_errors)
        self.queues.release(batch)

    def _complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        self.queues.release(batch)
        if not batch.done:
            batch.complete(base_offset, log_append_time)
            batch.run_callbacks(self._callback_failed)

    def fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """The batch has failed, perhaps while it is under way: its transaction, and then whoever waits
        for it, are told, once.
        """
        if not batch.done:
            self.identities.batch_failed(batch, error)
            batch.fail(error, record_errors)
            batch.run_callbacks(self._callback_failed)

    def _callback_failed(self, callback: Any) -> None:
        """Logs what a delivery callback has raised."""
        self._rare.exception("the delivery callback %r failed", callback)


def _overdue(batch: ProducerBatch, settings: Settings) -> KafkaError:
    """Says what the last attempt met."""
    if batch.last_error is not None:
        why = f"after {batch.attempts} attempts, the last: {batch.last_error}"
    else:
        why = "its request was not answered" if batch.attempts else "it was never sent"
    where = f"{batch.topic}-{batch.partition}"
    error = RequestTimedOut(
        f"{where}: not delivered within delivery.timeout.ms={settings.delivery_timeout * 1000:.0f}: {why}"
    )
    error.__cause__ = batch.last_error
    return error


def _record_errors(row: Any, error: KafkaError) -> dict[int, KafkaError] | None:
    """KIP-467: the records at fault have their own text."""
    if not row.record_errors:
        return None
    return {
        each.batch_index: type(error)(each.batch_index_error_message or str(error))
        for each in row.record_errors
    }
