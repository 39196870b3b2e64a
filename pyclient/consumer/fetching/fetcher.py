"""Fetches ahead of ``poll``, within bounds, and returns the fetched records.

One request per broker is in flight at a time. ``pump`` (on the loop) asks each idle broker for the partitions that have
too little buffered. ``take`` (on the application's thread) empties the buffer in the order in which it was filled, and
wakes the loop only if needed. All of this happens under the consumer's lock. An error of a partition waits in the
buffer behind its records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cy.batch.compression import CompressionError, OutputTooLarge
from cy.batch.header import CorruptBatch, InvalidBatch
from cy.client.signal_safe_lock import SignalSafeLock
from cy.consume.fetched import Chunk, Fetched, LegacyBatch
from pyclient.config import Config
from pyclient.consumer.errors import BatchTooLarge, CorruptRecords, LogTruncation, error_at, error_of
from pyclient.consumer.fetching.buffer import Buffer, Failure
from pyclient.consumer.fetching.epoch_ends import EpochEnds
from pyclient.consumer.fetching.fetch_session import FetchSession, Plan, Wanted
from pyclient.consumer.fetching.truncation import EpochEnd, follow, is_doubtful, judge
from pyclient.consumer.subscription import PartitionState, Subscription
from pyclient.core.client import Client
from pyclient.core.cluster import Broker
from pyclient.errors import SESSION_LOST, STALE_POSITION, ClientError, KafkaError
from pyclient.protocol import ZERO_UUID, Fetch
from pyclient.protocol.errors import OffsetOutOfRange
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

READ_COMMITTED: Final = 1
NO_LIMIT: Final = (1 << 63) - 1
NAMES_VERSION: Final = 12
"""The last version of Fetch with topic names instead of ids."""


def _fault(node: int, cause: Exception) -> KafkaError:
    error = ClientError(f"the answer of broker {node} could not be processed: {cause!r}")
    error.__cause__ = cause
    return error


class Posted(NamedTuple):
    """A partition's state, as it was when the request was sent."""

    state: PartitionState
    turn: int
    offset: int
    leader_epoch: int
    is_follower: bool

    @property
    def is_current(self) -> bool:
        """Whether the answer is still wanted: no seek, and no other broker's answer, came first."""
        return self.state.turn == self.turn and self.state.fetch_offset == self.offset


class Fetcher:
    """Fetches the records of one consumer ahead of its polls."""

    def __init__(
        self,
        client: Client,
        config: Config,
        subscription: Subscription,
        lock: SignalSafeLock,
        *,
        readers: tuple[Any, Any] = (None, None),
        on_ready: Callable[[], None] = lambda: None,
        on_reset: Callable[[PartitionState, KafkaError], None] = lambda state, error: None,
        on_error: Callable[[KafkaError], None] = lambda error: None,
    ) -> None:
        """``on_ready`` is called on the loop when ``take`` may have something to return. ``take`` calls ``on_reset`` if
        a position is out of range. ``on_error`` is called on the loop if a broker rejects fetches as a whole.
        """
        self._on_ready, self._on_reset, self._on_refusal = on_ready, on_reset, on_error
        self._client = client
        self._config = config
        self._subscription = subscription
        self._lock = lock
        self._readers = readers
        self._isolation = READ_COMMITTED if config.isolation_level == "read_committed" else 0
        self._may_reset = config.auto_offset_reset != "none"
        self._epoch_ends = EpochEnds(client, lock, self._on_epoch_end, self._on_refused, self.pump)
        self._sessions: dict[int, FetchSession] = {}
        self._busy: set[int] = set()
        self._doubtful: list[PartitionState] = []
        self._buffer = Buffer()
        self.taken: list[tuple[PartitionState, int, int | None, int]] = []
        """The partitions' positions before the last ``take``, with their turns. Empty once the application has the
        records.
        """
        self._is_full = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    # -- taking: any thread, under the lock ----------------------------------------------------------

    def take(self, limit: int, most: int = NO_LIMIT) -> list[Chunk]:
        """Returns the next records, at most ``limit``, and at most ``most`` bytes unless the first is larger. Raises an
        error if it is next in the buffer.

        The caller empties ``taken`` when the application has the records, or calls ``give_back``.
        """
        chunks: list[Chunk] = []
        self.taken = []
        try:
            self._take(chunks, limit, most)
        except KafkaError:  # no records were taken
            self.taken = []
            raise
        return chunks

    def _take(self, chunks: list[Chunk], limit: int, most: int) -> None:
        place = 0
        while limit > 0 and most > 0 and place < len(self._buffer.heads):
            head = self._buffer.heads[place]
            if head.turn != head.state.turn:
                self._drop(place)
            elif head.state.paused or head.state.leaving:
                place += 1
            elif isinstance(head, Failure):
                if chunks:
                    break
                self._drop(place)
                self._fail(head)
            else:
                chunk = self._take_of(head, limit, most, chunks)
                if chunk is not None:
                    limit -= chunk.count
                    most -= chunk.size
                if head.is_done or head.turn != head.state.turn:
                    self._drop(place)
                elif chunk is None:
                    break

    def _take_of(self, head: Fetched, limit: int, most: int, chunks: list[Chunk]) -> Chunk | None:
        state: PartitionState = head.state
        self.taken.append((state, state.turn, state.position, state.epoch))
        try:
            chunk = head.take(limit, state.until, most, not chunks)
        except (CorruptBatch, InvalidBatch, LegacyBatch, CompressionError) as error:
            if not chunks:
                self._fetch_anew(state, error)
            return None
        state.position = head.next_offset
        state.epoch = head.batch_epoch
        state.damaged = None
        if chunk is not None:
            chunks.append(chunk)
        return chunk

    def give_back(self) -> None:
        """Takes back the records of the last ``take``, which have not reached the application: the positions return to
        the ones before it, and the records are fetched again. Any thread may call this.

        A signal handler's exception may have ended that ``take`` anywhere.
        """
        if not self.taken:
            return
        with self._lock:
            back = {}
            for state, turn, position, epoch in reversed(self.taken):
                if state.turn == turn:
                    state.position, state.epoch = position, epoch
                    back[state.tp] = state
            for state in back.values():
                state.rewind()
            self._buffer.recount()
            self.taken = []
        self.wake()

    def _fetch_anew(self, state: PartitionState, error: Exception) -> None:
        """Fetches a damaged batch again, because it may be intact on the broker. Raises CorruptRecords the second
        time, and BatchTooLarge at once.
        """
        if isinstance(error.__cause__, OutputTooLarge):
            state.rewind()
            self.wake()
            raise BatchTooLarge(state.tp, state.position or 0, self._config.max_decompressed_batch_bytes) from error
        is_again = state.damaged == state.position
        state.damaged = state.position
        state.preferred = None  # the leader's copy may be intact
        state.rewind()
        self.wake()
        if is_again:
            raise CorruptRecords(str(error)) from error
        log.warning("fetching %s again: %s", state.tp, error)

    def _drop(self, place: int) -> None:
        self._buffer.drop(place)
        if self._is_full:
            self._is_full = False
            self.wake()

    def _fail(self, failure: Failure) -> None:
        failure.state.failed = False  # it is fetched again, and a new error is reported again
        self.wake()
        if not isinstance(failure.error, OffsetOutOfRange):
            raise failure.error
        self._on_reset(failure.state, failure.error)

    def on_pause(self) -> None:
        """Called when partitions were paused: their records may keep others from being fetched. Any thread may call
        this.
        """
        if self._is_full:
            self.wake()

    def wake(self) -> None:
        """Makes the loop call ``pump`` soon. Any thread may call this."""
        if not self._is_closed:
            self._client.loop.call_soon_threadsafe(self.pump)

    # -- requests: on the loop -----------------------------------------------------------------------

    def pump(self) -> None:
        """Sends a fetch to each idle broker that has wanted partitions."""
        if self._is_closed:
            return
        with self._lock:
            wanted = self._wanted()
            doubtful, self._doubtful = self._doubtful, []
        self._epoch_ends.ask(doubtful)
        for node, states in wanted.items():
            self._post(node, states)

    def _wanted(self) -> dict[int, list[PartitionState]]:
        wanted: dict[int, list[PartitionState]] = {}
        now, share = self._client.clock(), self._share()
        self._buffer.make_room(self._subscription.states.values(), self._config.queued_max_bytes)
        full = self._buffer.size >= self._config.queued_max_bytes
        for state in self._subscription.states.values():
            if state.position is None or state.paused or state.failed or state.leaving:
                continue
            if state.fetch_offset >= state.until:
                continue
            if full or state.buffered >= share:
                self._is_full = True
                continue
            if state.retry_at > now:
                self._again(state.retry_at - now)
                continue
            node = self._node_of(state, now)
            if node is not None and node not in self._busy:
                wanted.setdefault(node, []).append(state)
        return wanted

    def _share(self) -> int:
        """Returns how many bytes of one partition may wait, so that the others have room."""
        count = max(1, len(self._subscription.states))
        share: int = self._config.queued_max_bytes // (2 * count)
        return max(share, 1)

    def _node_of(self, state: PartitionState, now: float) -> int | None:
        """Returns the leader or the preferred replica; None if there is none, or if the leader must be asked first."""
        cluster = self._client.cluster
        leader = cluster.leader(state.tp)
        if leader is not None and is_doubtful(state, leader[1]):
            state.preferred = None
            self._doubtful.append(state)
            return None
        if state.preferred is not None:
            if state.preferred_until > now and state.preferred in cluster.brokers:
                return state.preferred
            state.preferred = None
        if leader is not None:
            return leader[0]
        self._client.refresh(state.tp.topic)
        self._later(state)
        return None

    def _post(self, node: int, states: list[PartitionState]) -> None:
        cluster, config = self._client.cluster, self._config
        posted, wanted = {}, {}
        with self._lock:
            for state in states:
                leader = cluster.leader(state.tp)
                epoch = -1 if leader is None else leader[1]
                follows = leader is not None and leader[0] != node
                posted[state.tp] = Posted(state, state.turn, state.fetch_offset, epoch, follows)
                wanted[state.tp] = Wanted(
                    cluster.topic_id(state.tp.topic), state.fetch_offset, epoch, state.fetch_epoch
                )
            free = config.queued_max_bytes - self._buffer.size
        session = self._sessions.setdefault(node, FetchSession())
        plan = session.plan(wanted, config.max_partition_fetch_bytes)
        has_ids = all(row.topic_id != ZERO_UUID for row in wanted.values())
        self._busy.add(node)
        self._client.post(
            node,
            Fetch,
            self._request(plan, free),
            lambda response, error: self._on_done(node, posted, response, error),
            timeout=(config.fetch_max_wait_ms + config.request_timeout_ms) / 1000,
            max_version=None if has_ids else NAMES_VERSION,
        )

    def _request(self, plan: Plan, free: int) -> Fetch.Request:
        """Returns a request of the session for no more than the ``free`` bytes of the buffer."""
        config = self._config
        return Fetch.Request(
            replica_id=-1,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=min(config.fetch_max_bytes, max(free, 1)),
            isolation_level=self._isolation,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            topics=plan.topics,
            forgotten_topics_data=plan.forgotten,
            rack_id=config.client_rack,
        )

    # -- answers: on the loop --------------------------------------------------------------------------

    def _on_done(
        self, node: int, posted: dict[TopicPartition, Posted], response: Any, error: KafkaError | None
    ) -> None:
        self._busy.discard(node)
        if self._is_closed:
            return
        session = self._sessions[node]
        if error is not None:
            session.on_failure()
            self._on_failure(posted, error)
            return
        session.on_response(response.error_code, response.session_id)
        if response.error_code == 0:
            try:
                self._on_response(posted, response)
            except Exception as fault:
                log.exception("the answer of broker %s could not be processed", node)
                self._on_failure(posted, _fault(node, fault))
        elif (told := error_of(response.error_code)).name not in SESSION_LOST:
            self._on_failure(posted, told)
            return
        self.pump()

    def _on_failure(self, posted: dict[TopicPartition, Posted], error: KafkaError) -> None:
        """Fetches all of the partitions again after a while. ``poll`` raises errors that are not retriable."""
        if not error.retriable:
            self._on_refusal(error)
        self._client.refresh()
        with self._lock:
            for row in posted.values():
                row.state.preferred = None
                self._later(row.state)

    def _on_response(self, posted: dict[TopicPartition, Posted], response: Fetch.Response) -> None:
        for row in response.node_endpoints:
            self._client.cluster.add_broker(Broker(row.node_id, row.host, row.port, row.rack))
        ready = False
        with self._lock:
            for topic in response.responses:
                name = topic.topic or self._client.cluster.topic_name(topic.topic_id)
                for part in topic.partitions:
                    asked = posted.get(TopicPartition(name or "", part.partition_index))
                    if asked is not None and asked.is_current:
                        ready |= self._on_partition(asked, part)
        if ready:
            self._on_ready()

    def _on_partition(self, asked: Posted, part: Fetch.Response.PartitionData) -> bool:
        """Handles one partition's answer. Returns whether the buffer has more now."""
        state = asked.state
        if part.error_code:
            return self._on_error(asked, part)
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        state.log_start_offset = max(part.log_start_offset, state.log_start_offset)
        if part.diverging_epoch is not None and part.diverging_epoch.epoch >= 0:
            end = EpochEnd(part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
            self._on_epoch_end(state, asked.leader_epoch, end)
            return state.failed
        if part.preferred_read_replica >= 0:
            state.preferred = part.preferred_read_replica
            state.preferred_until = self._client.clock() + self._config.metadata_max_age_ms / 1000
        if not part.records:
            return False
        return self._keep(asked, part)

    def _keep(self, asked: Posted, part: Fetch.Response.PartitionData) -> bool:
        state = asked.state
        aborted = [(row.producer_id, row.first_offset) for row in part.aborted_transactions or ()]
        fetched = Fetched(
            state.tp.topic,
            state.tp.partition,
            asked.offset,
            part.records,  # type: ignore[arg-type]
            aborted=aborted,
            check_crcs=self._config.check_crcs,
            key_reader=self._readers[0],
            value_reader=self._readers[1],
            max_inflated=self._config.max_decompressed_batch_bytes,
        )
        if fetched.end_offset > asked.offset:
            state.fetch_offset, state.fetch_epoch = fetched.end_offset, fetched.last_epoch
            state.proven = asked.leader_epoch
        elif fetched.is_readable:  # only part of a batch: ask again
            self._later(state)
            return False
        else:
            state.failed = True  # take() raises the error
        fetched.state = state
        self._buffer.add(fetched)
        return True

    def _on_error(self, asked: Posted, part: Fetch.Response.PartitionData) -> bool:
        state = asked.state
        error = error_of(part.error_code)
        was_follower = asked.is_follower
        state.preferred = None
        if error.name in STALE_POSITION or (isinstance(error, OffsetOutOfRange) and was_follower):
            if not self._follow(state.tp, part.current_leader):
                self._client.refresh(state.tp.topic)
                self._later(state)
            return False
        failure = error_at(state.tp, state.position, part.error_code)
        self._buffer.add_failure(state, self._client.rights.told(failure, topic=state.tp.topic))
        return True

    # -- truncation: on the loop, under the lock --------------------------------------------------------

    def _on_epoch_end(self, state: PartitionState, leader_epoch: int, end: EpochEnd) -> None:
        """Handles the leader's answer about how much of its log equals the log that was read."""
        truncation = judge(state, leader_epoch, end)
        if truncation is None:
            return
        error = LogTruncation(state.tp, truncation.offset, truncation.divergent)
        log.warning("%s", error)
        if not (self._may_reset and follow(state, leader_epoch, truncation)):
            self._buffer.add_failure(state, error)
            self._on_ready()

    def _on_refused(self, state: PartitionState, error: KafkaError) -> None:
        """Handles an error in place of the answer for which ``_on_epoch_end`` waits."""
        if error.retriable:
            self._client.refresh(state.tp.topic)
            self._later(state)
        else:
            self._buffer.add_failure(state, error)
            self._on_ready()

    def _follow(self, tp: TopicPartition, leader: Fetch.Response.LeaderIdAndEpoch | None) -> bool:
        """Handles an answer that names the new leader (KIP-951). Returns whether it was unknown."""
        if leader is None or leader.leader_id < 0:
            return False
        return self._client.cluster.leader_changed(tp, leader.leader_id, leader.leader_epoch)

    # -- time ------------------------------------------------------------------------------------------

    def _later(self, state: PartitionState) -> None:
        wait = self._config.retry_backoff_ms / 1000
        state.retry_at = self._client.clock() + wait
        self._again(wait)

    def _again(self, wait: float) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = self._client.loop.call_later(wait + 0.001, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.pump()

    def close(self) -> None:
        """Ends all fetches and returns no records from now on."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._buffer.heads.clear()
