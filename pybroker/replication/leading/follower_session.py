"""The leader's side of a follower's fetch session, which visits only partitions that may have news.

A broker may follow thousands of partitions of one leader. Each of its requests asks for all of them, but names only
partitions whose position has changed. So the session remembers which partitions may have news: the *ready* ones. It
reads only these. A partition is ready if the request names it, if it has changed since the last request, or if it did
not fit whole into the last response. The session watches all its partitions for changes.

If there is no news, a request waits until a partition changes. The first request of a session never waits: before its
response, the follower has no session in which it could report changes.

If a partition is not ready, the follower has all of its records. So when the partition changes, the follower counts as
caught up at the time of its last request. (Kafka notes this for every partition in every request.)

A session belongs to one connection and ends with it. If another request comes while one waits, the waiting one is
answered at once. Loop's thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pybroker.replication.fetch_partition import UNKNOWN, FetchPartition, Isolation, PartitionRead
from pybroker.replication.fetch_session import INITIAL_EPOCH, Answer, Key, has_news, next_epoch
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory, Waiting
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

Respond = Callable[[int, list[Answer]], Any]
Throttle = Callable[[TopicPartition, int, int, int], int]
"""Returns how many milliseconds to wait; see ``ReplicationThrottle.delay_ms``."""
Note = Callable[[FetchPartition, Partition], None]
"""Notes that the follower has everything below the offset that it names. Raises KafkaError if it has no replica."""

FIRST: Final = INITIAL_EPOCH


class Asked(NamedTuple):
    """A follower's request. ``partitions`` has only the partitions that the request names."""

    session_id: int
    session_epoch: int
    broker_epoch: int
    partitions: Mapping[Key, FetchPartition]
    forgotten: Iterable[Key]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class Place:
    """One partition of a session, as the follower last requested it."""

    __slots__ = ("partition", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.partition: Partition | None = None


class WaitingFollower(Waiting):
    """A follower's waiting request. Its session ends with its connection."""

    def __init__(self, purgatory: Purgatory, session: FollowerSession) -> None:
        super().__init__(purgatory)
        self._session = session

    def expired(self) -> None:
        """Answers with the records and changes that are known by now."""
        self._session.hurry()

    def cancel(self, msg: Any = None) -> bool:
        """Ends the session, because the connection has ended."""
        self._session.close()
        return super().cancel(msg)


class FollowerSession:
    """The partitions that one broker follows here."""

    def __init__(
        self,
        id: int,
        replica: int,
        purgatory: Purgatory,
        find: Callable[[FetchPartition], Partition],
        throttle: Throttle,
        *,
        tells_progress: bool,
    ) -> None:
        """``find`` raises KafkaError. With ``tells_progress``, an advanced high watermark ends a wait."""
        self.id = id
        self.replica = replica
        self.epoch = INITIAL_EPOCH
        """The epoch of the next request."""
        self.broker_epoch = -1
        """The follower's registration. After a new registration, the follower has to name all partitions again."""
        self._purgatory = purgatory
        self._find = find
        self._throttle = throttle
        self._tells_progress = tells_progress
        self._places: dict[Key, Place] = {}
        self._ready: dict[Key, None] = {}
        self._reads: dict[Key, PartitionRead] = {}
        """The data that were read for the current request, by partition."""
        self._size = 0
        self._min_bytes = self._max_bytes = 0
        self._is_first = False
        self._fetched_ms = 0
        self._respond: Respond | None = None
        self._waiting: WaitingFollower | None = None

    # A request

    def fetch(self, asked: Asked, note: Note, respond: Respond, now_ms: int) -> Any:
        """Returns ``respond(session id, answers)``, or a future of it. Raises InvalidFetchSessionEpoch."""
        if asked.session_epoch != self.epoch:
            raise errors.InvalidFetchSessionEpoch(
                f"fetch session {self.id} is in epoch {self.epoch}, not {asked.session_epoch}"
            )
        self._is_first = self.epoch == INITIAL_EPOCH
        self.epoch = next_epoch(self.epoch)
        self._fetched_ms = now_ms
        self._reads, self._size = {}, 0
        self._min_bytes, self._max_bytes = min(asked.min_bytes, asked.max_bytes), asked.max_bytes
        self._change(asked)
        enough = self._read_ready(asked.partitions, note)
        if enough or self._is_first or asked.max_wait_ms <= 0:
            return respond(self.id, self._answers())
        self._respond = respond
        self._waiting = WaitingFollower(self._purgatory, self)
        self._purgatory.park(self._waiting, (), asked.max_wait_ms)
        return self._waiting

    def _change(self, asked: Asked) -> None:
        for key, wanted in asked.partitions.items():
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = Place(wanted)
            else:
                if _may_have_missed(place.wanted, wanted):
                    place.wanted.sent_high_watermark = UNKNOWN
                place.wanted.update(wanted)
            self._ready.setdefault(key)
        for key in asked.forgotten:
            place = self._places.pop(key, None)
            self._ready.pop(key, None)
            if place is not None and place.partition is not None:
                self._purgatory.unwatch(self, place.partition)

    def _read_ready(self, named: Mapping[Key, FetchPartition], note: Note) -> bool:
        enough = not self._places
        for key in tuple(self._ready):
            if key in named or self._size < self._max_bytes:
                enough = self._read(key) or enough
        for key in named:
            if not self._reads[key].is_urgent:
                enough = self._note(key, note) or enough
        return enough

    def _note(self, key: Key, note: Note) -> bool:
        """Notes that the follower has everything below its offset. Returns True if it should get an answer now."""
        place, read = self._places[key], self._reads[key]
        assert place.partition is not None
        try:
            note(place.wanted, place.partition)
        except errors.KafkaError as error:
            self._size -= read.size
            self._reads[key] = PartitionRead(error=error)
            return True
        read.high_watermark = place.partition.high_watermark
        return self._is_progress(place.wanted, read)

    def _read(self, key: Key) -> bool:
        """Reads one partition. Returns True if the request should be answered now."""
        place = self._places[key]
        before = self._reads.get(key)
        if before is not None:
            self._size -= before.size
        try:
            partition = self._locate(key, place)
            is_throttled = self._is_throttled(partition, 0)
            read = partition.read(
                place.wanted,
                0 if is_throttled else max(0, self._max_bytes - self._size),
                Isolation.LOG_END,
                min_one=self._size == 0 and not is_throttled,
                must_lead=True,
            )
        except errors.KafkaError as error:
            read = PartitionRead(error=error)
            if isinstance(error, errors.OffsetOutOfRange) and place.partition is not None:
                read.log_start_offset = place.partition.log.log_start_offset
        self._reads[key] = read
        self._size += read.size
        return read.is_urgent or self._size >= self._min_bytes or self._is_progress(place.wanted, read)

    def _is_throttled(self, partition: Partition, used_bytes: int) -> bool:
        """Counts ``used_bytes`` and returns True if the follower is out of sync and has to wait for more records."""
        isr = partition.isr
        if isr is None or self.replica in isr.members:
            return False
        return self._throttle(partition.topic_partition, self.replica, used_bytes, self._fetched_ms) > 0

    def _is_progress(self, wanted: FetchPartition, read: PartitionRead) -> bool:
        return self._tells_progress and UNKNOWN != wanted.sent_high_watermark < read.high_watermark

    def _locate(self, key: Key, place: Place) -> Partition:
        """Finds the partition and watches it from now on. Raises KafkaError."""
        partition = self._find(place.wanted)
        if partition is not place.partition:
            if place.partition is not None:
                self._purgatory.unwatch(self, place.partition)
            place.partition = partition
            self._purgatory.watch(self, partition, key)
        return partition

    # While it waits, and between requests

    def woken(self, key: Key) -> None:
        """Makes a changed partition ready, and answers a waiting request if it now has enough."""
        place = self._places.get(key)
        if place is None:
            return
        if key not in self._ready:
            self._ready[key] = None
            self._was_caught_up(place)
        if self._waiting is not None and self._read(key):
            self.hurry()

    def _was_caught_up(self, place: Place) -> None:
        tracker = place.partition.isr if place.partition is not None else None
        follower = tracker.followers.get(self.replica) if tracker is not None else None
        if follower is not None and follower.log_end_offset == place.wanted.fetch_offset:
            follower.was_caught_up(self._fetched_ms)

    def hurry(self) -> None:
        """Answers the waiting request, if there is one, with the records and changes that are known by now."""
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.done():
            return
        assert self._respond is not None
        try:
            response = self._respond(self.id, self._answers())
        except Exception as error:
            waiting.fail(error)
        else:
            waiting.answer(response)

    def _answers(self) -> list[Answer]:
        """Returns the partitions with news. A partition that may have more stays ready, after the others."""
        answers = []
        for key, read in self._reads.items():
            place = self._places.get(key)
            if place is None:
                continue
            if has_news(place.wanted, read) or self._is_first:
                answers.append((place.wanted, read))
            if read.size and place.partition is not None:
                self._is_throttled(place.partition, read.size)
            del self._ready[key]
            if read.is_urgent or read.size or _lacks(place):
                self._ready[key] = None
        self._reads = {}
        return answers

    def cancel(self, msg: Any = None) -> bool:
        """Ends the session, because the broker is stopping."""
        self.close()
        return True

    def close(self) -> None:
        """Ends the session, and cancels its waiting request."""
        waiting, self._waiting = self._waiting, None
        for place in self._places.values():
            if place.partition is not None:
                self._purgatory.unwatch(self, place.partition)
        self._places.clear()
        self._ready.clear()
        self._reads.clear()
        self.epoch = -1
        if waiting is not None and not waiting.done():
            waiting.cancel()


def _may_have_missed(before: FetchPartition, now: FetchPartition) -> bool:
    """Returns True if the follower may not have taken over the high watermark of the last response.

    A follower ignores a response if its position has changed meanwhile. It cannot use a high watermark beyond the
    offset from which it fetched either: outside the in-sync set, a follower may be that far behind.
    """
    is_far = before.sent_high_watermark > before.fetch_offset
    return is_far or before.current_leader_epoch != now.current_leader_epoch


def _lacks(place: Place) -> bool:
    """Returns True if the log has records that the follower has not fetched."""
    return place.partition is not None and place.wanted.fetch_offset < place.partition.log.log_end_offset
