"""Takes batches from the queues to the brokers and back. Lives on the client's loop.

``run`` is what everything leads to: applications wake it when a queue has news, a timer when a
linger or a back-off is over, and every response calls it. It sends whatever may go now: to each
broker that takes another request, if any of its partitions has a batch that is due, the oldest
batch of each of its partitions.

What becomes of a batch is decided by ``pyclient.producer.outcome``; what may go in a partition by
``pyclient.producer.lane``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cy.partition_queue import PartitionQueue
from cy.producer_batch import ProducerBatch
from cy.record_queues import RecordQueues
from pyclient.core.backoff import delay
from pyclient.errors import ConnectionFailed, KafkaError, RequestTimedOut, of_code
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
V1_PRODUCE = 11
"""The last version of Produce that does not add partitions to transactions by itself."""


class Sender:
    """The sending half of a producer; one per client."""

    def __init__(
        self, client: Client, queues: RecordQueues, settings: Settings, identities: Identities
    ) -> None:
        self.client = client
        self.queues = queues
        self.settings = settings
        self.identities = identities
        self.room_waiters: list[Callable[[], Any]] = []
        """Called, once, when memory was freed; any thread may append."""
        self.pressed = 0
        """How many wait for everything to go now (flush, close)."""
        self._active: dict[PartitionQueue, Lane] = {}
        self._flying: dict[int, int] = {}
        self._order = 1
        """Of the next batch; leaves numbers for the parts that a batch may be split into."""
        self._timer: Any = None
        self._timer_at = float("inf")
        self._deadline = float("inf")
        """When the first batch is overdue."""
        identities.resume = self.run

    # -- what goes ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Sends what may go, and sets the timer for the rest."""
        for queue in self.queues.take_news():
            if queue.state is None:
                queue.state = Lane(queue)
            self._active[queue] = queue.state
        now = self.client.clock()
        self._deadline = float("inf")
        next_at = self._round(now)
        while next_at is None:
            next_at = self._round(now)
        self._set_timer(next_at, now)

    def _round(self, now: float) -> float | None:
        """One request to each broker at most. None if any went, else when to look again."""
        ready: dict[int, list[Lane]] = {}
        due: set[int] = set()
        next_at = float("inf")
        for lane in list(self._active.values()):
            at = self._look(lane, now)
            if at is None:
                continue
            next_at = min(next_at, at)
            if lane.leader >= 0 and self._flying.get(lane.leader, 0) < self.settings.max_in_flight:
                if at <= now:
                    due.add(lane.leader)
                ready.setdefault(lane.leader, []).append(lane)
        for node in due:
            self._send(node, ready[node])
        if due:
            return None
        return next_at if next_at > now else float("inf")

    def _look(self, lane: Lane, now: float) -> float | None:
        """When the lane's next batch is due (``now`` or before: at once). None: an event will tell."""
        self._expire(lane, now)
        batch = lane.next()
        if batch is None:
            if lane.wants_reset():
                self.identities.renew(lane)
                batch = lane.next()
            elif lane.queue.empty and not lane.in_flight:
                self._active.pop(lane.queue, None)
        if batch is None or not self.identities.admits(lane, batch):
            return None
        if self._leader(lane) < 0:
            self.client.refresh(lane.queue.topic)
            return now + self.settings.backoff
        if batch.retry_at > now:
            return batch.retry_at
        if lane.queue.full or batch.order or self.pressed or self.room_waiters:
            return now
        return max(now, batch.created + self.settings.linger) if self.settings.linger else now

    def _leader(self, lane: Lane) -> int:
        cluster = self.client.cluster
        if lane.version != cluster.version:
            queue = lane.queue
            found = cluster.leader(TopicPartition(queue.topic, queue.partition))
            lane.leader = -1 if found is None else found[0]
            lane.version = cluster.version
            queue.available = found is not None
        return lane.leader

    def _send(self, node: int, lanes: list[Lane]) -> None:
        """One request with a batch of each of the lanes, as far as they fit."""
        now = self.client.clock()
        size = 0
        sent: list[tuple[Lane, ProducerBatch]] = []
        for lane in lanes:
            batch = lane.next()
            if batch is None or batch.retry_at > now:
                continue
            if sent and size + batch.size > self.settings.max_request_size:
                break
            self._depart(lane, batch)
            size += batch.size
            sent.append((lane, batch))
        if not sent:
            return
        self._flying[node] = self._flying.get(node, 0) + 1
        self.client.post(
            node,
            Produce,
            self._request(sent),
            lambda response, error: self._answered(node, sent, response, error),
            max_version=V1_PRODUCE if self.identities.is_version_1 else None,
        )

    def _depart(self, lane: Lane, batch: ProducerBatch) -> None:
        if batch is lane.queue.first():
            lane.queue.take()
        else:
            lane.queue.remove(batch)
        settings = self.settings
        batch.seal(settings.codec, settings.level, settings.transactional_id is not None)
        lane.depart(batch, self._order)
        self._order += batch.count

    def _request(self, sent: list[tuple[Lane, ProducerBatch]]) -> Produce.Request:
        topics: dict[str, Any] = {}
        for _, batch in sent:
            topic = topics.get(batch.topic)
            if topic is None:
                topic = topics[batch.topic] = Produce.Request.TopicProduceData(
                    name=batch.topic, topic_id=self.client.cluster.topic_id(batch.topic)
                )
            topic.partition_data.append(
                Produce.Request.PartitionProduceData(index=batch.partition, records=batch.records)
            )
        settings = self.settings
        return Produce.Request(
            transactional_id=settings.transactional_id,
            acks=settings.acks,
            timeout_ms=int(settings.request_timeout * 1000),
            topic_data=list(topics.values()),
        )

    def _set_timer(self, at: float, now: float) -> None:
        at = min(at, self._deadline)
        if at >= self._timer_at:  # it fires early, looks, and is set again
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = None
        if at < float("inf"):
            self._timer = self.client.loop.call_later(max(0.0, at - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self.run()

    # -- what comes back ---------------------------------------------------------------------------

    def _answered(
        self,
        node: int,
        sent: list[tuple[Lane, ProducerBatch]],
        response: Produce.Response | None,
        error: KafkaError | None,
    ) -> None:
        self._flying[node] -= 1
        if error is not None:
            self._lost(sent, error)
        elif response is None:
            for lane, batch in sent:
                lane.arrive(batch)
                self._complete(batch, -1, -1)
        else:
            self._served(sent, response)
        self._free_room()
        self.run()

    def _lost(self, sent: list[tuple[Lane, ProducerBatch]], error: KafkaError) -> None:
        for lane, batch in sent:
            lane.arrive(batch)
            if not isinstance(error, ConnectionFailed):
                batch.maybe_written = True
            if error.retriable:
                self._retry(lane, batch, error)
            else:
                self._refuse(lane, batch, error)
        self.client.refresh(sent[0][1].topic)

    def _served(self, sent: list[tuple[Lane, ProducerBatch]], response: Produce.Response) -> None:
        rows: dict[tuple[Any, int], Any] = {}
        name_of = self.client.cluster.topic_name
        for topic in response.responses:
            name = topic.name or name_of(topic.topic_id)
            for row in topic.partition_responses:
                rows[name, row.index] = row
        for lane, batch in sent:
            lane.arrive(batch)
            found = rows.get((batch.topic, batch.partition))
            if found is None:
                batch.maybe_written = True
                self._retry(lane, batch, of_code(100))
            elif found.error_code in (0, DUPLICATE):
                lane.acknowledged = True
                duplicate = found.error_code == DUPLICATE
                self._complete(
                    batch, -1 if duplicate else found.base_offset, found.log_append_time_ms
                )
            else:
                self._failed(lane, batch, found, response)

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
            self._refuse(lane, batch, error, _record_errors(row, error))

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
            self._refuse(lane, batch, error)
        else:
            self._retry(lane, batch, error, at_once=True)

    def _split(self, lane: Lane, batch: ProducerBatch) -> None:
        parts = lane.split(batch, max(1, batch.plain_size // 2))
        self.queues.release(batch)
        for part in parts:
            self.queues.charge(part)

    def _retry(
        self, lane: Lane, batch: ProducerBatch, error: KafkaError | None, *, at_once: bool = False
    ) -> None:
        """Puts the batch back, if it may go again."""
        now = self.client.clock()
        assert error is not None
        if batch.done or self.identities.is_over or batch.attempts > self.settings.retries:
            self._refuse(lane, batch, error)
        else:
            batch.last_error = error
            wait = delay(self.settings.backoff, self.settings.max_backoff, batch.attempts - 1)
            batch.retry_at = now if at_once else now + wait
            lane.queue.put_back(batch)
            self._active[lane.queue] = lane

    def _expire(self, lane: Lane, now: float) -> None:
        """Fails what is older than delivery.timeout.ms."""
        limit = now - self.settings.delivery_timeout
        for batch in lane.in_flight:
            if batch.created < limit and not batch.done:
                self._finish(batch, _overdue(batch, self.settings))
        while (head := lane.queue.first()) is not None and head.created < limit:
            lane.queue.remove(head)
            self._refuse(lane, head, _overdue(head, self.settings))
        oldest = next((each for each in lane.in_flight if not each.done), head)
        if oldest is not None:
            overdue_at = oldest.created + self.settings.delivery_timeout
            self._deadline = min(self._deadline, overdue_at)

    def _refuse(
        self,
        lane: Lane,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """The batch will not be sent again."""
        if not batch.maybe_written:
            lane.refused(batch)
        self.identities.batch_failed(batch, error)
        self._finish(batch, error, record_errors)
        self.queues.release(batch)

    # -- done --------------------------------------------------------------------------------------

    def _complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        self.queues.release(batch)
        if not batch.done:
            batch.complete(base_offset, log_append_time)
            batch.run_callbacks(_callback_failed)

    def _finish(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        if not batch.done:
            batch.fail(error, record_errors)
            batch.run_callbacks(_callback_failed)

    def _free_room(self) -> None:
        if self.room_waiters:
            waiters, self.room_waiters = self.room_waiters, []
            for waiter in waiters:
                waiter()

    # -- all of them -------------------------------------------------------------------------------

    def pending(self) -> list[ProducerBatch]:
        """Every batch that is not done. What comes after this call goes into new ones."""
        self.queues.close_all()
        found: list[ProducerBatch] = []
        for lane in self._lanes():
            found += lane.in_flight
            found += lane.queue.batches()
        return [batch for batch in found if not batch.done]

    def _lanes(self) -> list[Lane]:
        for queue in self.queues.take_news():
            if queue.state is None:
                queue.state = Lane(queue)
            self._active[queue] = queue.state
        return list(self._active.values())

    def drop(self, error: KafkaError) -> None:
        """Fails everything that is not under way."""
        for lane in self._lanes():
            for batch in lane.queue.drain():
                self._refuse(lane, batch, error)
        self._free_room()

    def fail_all(self, error: KafkaError) -> None:
        """Fails everything; answers that still come change nothing."""
        self.drop(error)
        for lane in self._lanes():
            for batch in lane.in_flight:
                self._finish(batch, error)
        if self._timer is not None:
            self._timer.cancel()


def _callback_failed(callback: Any) -> None:
    log.exception("the delivery callback %r failed", callback)


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
