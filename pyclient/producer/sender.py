"""Sends batches from the queues to the brokers. Runs on the client's loop.

``run`` is the centre. An application calls it when a queue has a new batch, and a timer when a linger or a back-off is
over. It also runs after every response. It looks at the lanes with waiting batches, and sends what may go now. A broker
that can take another request gets one if a batch for any of its partitions is due. The request contains the oldest
batch of each of its partitions. Lanes without waiting batches are skipped, so a single record costs one check and one
request.

``pyclient.producer.outcome`` decides the outcome of a batch, ``pyclient.producer.in_flight`` what may be sent to a
partition. One timer, set for the oldest batch, serves all delivery timeouts.

A broker that took no request for ``partitioner.availability.timeout.ms``, although batches were due, gets no records
without a key until it takes one again (KIP-794).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from cy.produce.partition_queue import PartitionQueue
from cy.produce.phase import QUEUED
from cy.produce.produce_template import PROBE, Cast, ProduceTemplate
from cy.produce.producer_batch import ProducerBatch
from cy.produce.record_queues import RecordQueues
from pyclient.core.reports.rights import IDENTIFYING
from pyclient.errors import KafkaError
from pyclient.producer.in_flight import Lane
from pyclient.producer.outcome import Outcomes, Sent
from pyclient.producer.settings import Settings
from pyclient.protocol import Produce
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.client import Client
    from pyclient.core.nodes.transport import Transport
    from pyclient.producer.identity import Identities

V1_PRODUCE = 11
"""The last version of Produce that does not add partitions to transactions."""
NEVER = float("inf")


class Sender:
    """Sends the batches of one producer."""

    def __init__(
        self, client: Client, queues: RecordQueues, settings: Settings, identities: Identities
    ) -> None:
        self.client = client
        self.queues = queues
        self.settings = settings
        self.identities = identities
        self.outcomes = Outcomes(client, queues, settings, identities, self._again)
        self.room_waiters: list[Callable[[], Any]] = []
        """Functions to call once when memory was freed; any thread may append."""
        self._answer_waiters: list[Callable[[], Any]] = []
        self.pressed = 0
        """How many callers want all batches sent now (flush, close)."""
        self._active: dict[Lane, None] = {}
        """The lanes with batches to send."""
        self._lanes: dict[PartitionQueue, Lane] = {}
        """The lanes of all partitions that ever had a batch."""
        self._unanswered: dict[int, int] = {}
        """The number of requests in flight to each node."""
        self._stalled: dict[int, float] = {}
        """The time since which a node has taken no request although a batch was due."""
        self._away: set[int] = set()
        """The nodes that get no records without a key."""
        self._topics_sent: set[str] = set()
        self._timer: Any = None
        self._timer_at = NEVER
        self._expire_at = NEVER
        """No batch is overdue before this time."""
        self._ended = False
        identities.resume = self.run

    @property
    def unanswered(self) -> int:
        """The number of requests in flight. Any thread may read it."""
        return sum(list(self._unanswered.values()))

    # -- sending -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Sends all batches that may be sent, and sets the timer for the others."""
        if self._ended:
            return
        self._take_news()
        if self._active and self.identities.is_over:
            self.drop(self.identities.refusal())
        now = self.client.clock()
        if now >= self._expire_at:
            self._expire(now)
        next_at = NEVER
        if self._active:
            while (at := self._round(now)) is None:
                if not self._active:
                    at = NEVER
                    break
            next_at = at
        self._set_timer(min(next_at, self._expire_at), now)

    def _take_news(self) -> None:
        for queue in self.queues.take_news():
            self._again(self._lanes.get(queue) or self.lane(queue))

    def lane(self, queue: PartitionQueue) -> Lane:
        """Returns the lane of the queue's batches."""
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = Lane(queue)
        return lane

    def _again(self, lane: Lane) -> None:
        """Marks the lane as having a batch to send."""
        self._active[lane] = None
        if self._expire_at == NEVER:
            self._expire_at = self.client.clock() + self.settings.delivery_timeout

    def _round(self, now: float) -> float | None:
        """Sends at most one request to each broker. Returns None if any was sent, else when to look again."""
        ready: dict[int, Sent] = {}
        due: list[int] = []
        next_at = NEVER
        for lane in tuple(self._active):
            batch = self._next(lane)
            if batch is None or (at := self._due(lane, batch, now)) is None:
                continue
            node = lane.leader
            if node >= 0 and self._is_free(node):
                if batch.retry_at <= now:
                    ready.setdefault(node, []).append((lane, batch))
                if at <= now:
                    due.append(node)
                    continue
            elif node >= 0 and at <= now:
                at = self._stall(node, now)
            if at < next_at:
                next_at = at
        for node in due if len(due) < 2 else set(due):
            self._send(node, ready[node])
        return None if due else next_at

    def _is_free(self, node: int) -> bool:
        return self._unanswered.get(node, 0) < self.settings.max_in_flight

    def _next(self, lane: Lane) -> ProducerBatch | None:
        """Returns the next batch of the lane, None while none may be sent."""
        batch = lane.next()
        if batch is None and lane.wants_reset():
            self.identities.renew(lane)
            batch = lane.next()
        if batch is None and not lane.has_waiting():
            self._active.pop(lane, None)
        return batch

    def _due(self, lane: Lane, batch: ProducerBatch, now: float) -> float | None:
        """Returns when the lane's next batch is due (``now`` or before: at once). None if an event will call ``run``.
        """
        if not self.identities.admits(lane, batch):
            return None
        if lane.version != self.client.cluster.version:
            self._find_leader(lane)
        if lane.leader < 0:
            self.client.refresh(lane.queue.topic)
            return now + self.settings.backoff
        if batch.retry_at > now:
            return batch.retry_at
        was_sent = batch.phase is not QUEUED
        if not self.settings.linger or lane.queue.full or was_sent or self.pressed or self.room_waiters:
            return now
        return max(now, batch.created + self.settings.linger)

    def _find_leader(self, lane: Lane) -> None:
        cluster, queue = self.client.cluster, lane.queue
        found = cluster.leader(TopicPartition(queue.topic, queue.partition))
        lane.leader = -1 if found is None else found[0]
        lane.version = cluster.version
        lane.template = None
        queue.available = self._is_available(lane.leader)

    def _send(self, node: int, ready: Sent) -> None:
        """Sends one request with as many of the batches as fit."""
        room = self.settings.max_request_size
        sent: Sent = []
        for each in ready:
            lane, batch = each
            if sent and batch.size > room:
                break
            self._depart(lane, batch)
            room -= batch.size
            sent.append(each)
        self._unanswered[node] = self._unanswered.get(node, 0) + 1
        if self._stalled:
            self._taken(node)
        self.client.post(
            node,
            Produce,
            self._request(sent),
            partial(self._answered, node, sent),
            max_version=V1_PRODUCE if self.identities.is_version_1 else None,
        )

    def _depart(self, lane: Lane, batch: ProducerBatch) -> None:
        self._topics_sent.add(lane.queue.topic)
        lane.take(batch)
        if not batch.sealed:
            settings = self.settings
            batch.seal(settings.codec, settings.level, settings.transactional_id is not None)
        lane.depart(batch)
        del self._active[lane]
        if lane.has_waiting():  # at the end: a batch that does not fit into this request is the first of the next
            self._active[lane] = None

    def _request(self, sent: Sent) -> Produce.Request | Cast:
        if len(sent) > 1:
            return self._message([(batch.topic, batch.partition, batch.records) for _, batch in sent])
        lane, batch = sent[0]
        template = lane.template
        if template is None:
            message = self._message([(batch.topic, batch.partition, PROBE)])
            template = lane.template = ProduceTemplate(Produce.request_codec, message, self.settings.acks == 0)
        return template.cast(batch)

    def _message(self, rows: Iterable[tuple[str, int, bytes | None]]) -> Produce.Request:
        """Returns a request of topics, partitions and batches."""
        request = Produce.Request
        topics: dict[str, Any] = {}
        for name, partition, records in rows:
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = request.TopicProduceData(
                    name=name, topic_id=self.client.cluster.topic_id(name)
                )
            topic.partition_data.append(request.PartitionProduceData(index=partition, records=records))
        settings = self.settings
        return request(
            transactional_id=settings.transactional_id,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    # -- a single batch ----------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if nothing waits and nothing is in flight."""
        return not self._active and not any(self._unanswered.values())

    def inline_send(self, batch: ProducerBatch) -> Transport | None:
        """Sends the batch now if it is the only one and has no callback on the loop's thread.

        Returns the connection that will answer it, None if the loop must send it.
        """
        self._take_news()
        if len(self._active) != 1 or batch.is_watched:
            return None
        (lane,) = self._active
        if lane.next() is not batch:
            return None
        now = self.client.clock()
        at = self._due(lane, batch, now)
        transport = None if at is None or at > now else self.client.nodes.transport(lane.leader)
        if transport is not None:
            self._send(lane.leader, [(lane, batch)])
        return transport

    # -- brokers that do not take requests ---------------------------------------------------------

    def _stall(self, node: int, now: float) -> float:
        """Notes that a batch is due and the node takes no request. Returns when to look again."""
        timeout = self.settings.availability_timeout
        if not timeout:
            return NEVER
        since = self._stalled.setdefault(node, now)
        if since + timeout > now:
            return since + timeout
        if node not in self._away:
            self._away.add(node)
            self.update_available(self.client.cluster.topics())
        return NEVER

    def _taken(self, node: int) -> None:
        """Notes that the node takes a request."""
        if self._stalled.pop(node, None) is not None and node in self._away:
            self._away.remove(node)
            self.update_available(self.client.cluster.topics())

    def _is_available(self, leader: int) -> bool:
        return leader >= 0 and leader not in self._away

    def update_available(self, topics: Iterable[str]) -> None:
        """Decides to which of the topics' partitions records without a key may go."""
        for name in topics:
            topic = self.queues.topic(name)
            if topic is None:
                continue
            rows = self.client.cluster.partitions(name) or ()
            for queue, row in zip(topic.queues, rows, strict=False):
                queue.available = self._is_available(row.leader)

    # -- time --------------------------------------------------------------------------------------

    def _set_timer(self, at: float, now: float) -> None:
        if at >= self._timer_at:  # the timer fires earlier, and is set again then
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self.client.loop.call_later(max(0.0, at - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, NEVER
        self.run()

    def _expire(self, now: float) -> None:
        """Fails batches older than delivery.timeout.ms, and finds the time at which the next one will be."""
        timeout = self.settings.delivery_timeout
        for lane in self._busy():
            self.outcomes.overdue(lane, now - timeout)
        oldest = min((batch.created for batch in self._pending()), default=NEVER)
        self._expire_at = oldest + timeout
        self.queues.trim()
        self._free_room()

    # -- answers -----------------------------------------------------------------------------------

    def _answered(
        self, node: int, sent: Sent, response: Produce.Response | None, error: KafkaError | None
    ) -> None:
        self._unanswered[node] -= 1
        if error is not None:
            self.outcomes.lost(sent, error)
        elif response is None:
            self.outcomes.unanswered(sent)
        else:
            self.outcomes.served(sent, response)
        if self.room_waiters:
            self._free_room()
        if self._active and error is None:
            self.run()
        elif self._active:  # first learn which other requests of the connection are lost too
            self._set_timer(now := self.client.clock(), now)
        if self._answer_waiters and not any(self._unanswered.values()):
            waiters, self._answer_waiters = self._answer_waiters, []
            for waiter in waiters:
                waiter()

    def when_answered(self, waiter: Callable[[], Any]) -> None:
        """Calls ``waiter()`` once no request is in flight."""
        if any(self._unanswered.values()):
            self._answer_waiters.append(waiter)
        else:
            waiter()

    def _free_room(self) -> None:
        waiters, self.room_waiters = self.room_waiters, []
        for waiter in waiters:
            waiter()

    # -- all of them -------------------------------------------------------------------------------

    def pending(self) -> list[ProducerBatch]:
        """Returns every batch that is not done. Later records go into new batches."""
        self.queues.close_all()
        self._take_news()
        return list(self._pending())

    def last(self) -> list[ProducerBatch]:
        """Like ``pending``, when the producer ends: the caller logs which of these are lost."""
        batches = self.pending()
        for batch in batches:
            batch.asked = True
        return batches

    def _pending(self) -> Iterable[ProducerBatch]:
        for lane in self._busy():
            for batch in (*lane.batches, *lane.queue.batches()):
                if not batch.done:
                    yield batch

    def _busy(self) -> list[Lane]:
        """Returns the lanes with batches in the queue, in flight, or not reported yet."""
        return [lane for lane in self._lanes.values() if lane.batches or not lane.queue.empty]

    def topics_in_use(self) -> set[str]:
        """Returns the topics of batches that wait, are in flight, or were sent since the last call."""
        used, self._topics_sent = self._topics_sent, set()
        used.update(lane.queue.topic for lane in self._busy())
        return used

    def drop(self, error: KafkaError) -> None:
        """Fails all batches that are not in flight."""
        self._take_news()
        for lane in self._busy():
            for batch in lane.drain():
                self.outcomes.refuse(lane, batch, self.client.rights.told(error, IDENTIFYING, topic=batch.topic))
        self._free_room()

    def fail_all(self, error: KafkaError) -> None:
        """Ends the sender: fails all batches, ignores later answers, and sends nothing more."""
        self._ended = True
        self._take_news()
        for lane in self._busy():
            self.outcomes.give_up(lane, NEVER, lambda _: error)
        if self._timer is not None:
            self._timer.cancel()
        self._free_room()
