"""Fetch sessions (KIP-227): the broker remembers what a consumer fetches, so that requests and
responses carry only changes.

A request names a session and an epoch:

    epoch  0  the request names all partitions; the named session ends, a new one begins if there is room
    epoch -1  the request names all partitions; the named session ends, none begins
    epoch  n  the request names only changes; the session must be in epoch n, and is then in n + 1

An incremental response leaves out partitions without news: no records, no error, and the same high watermark and log
start as the fetcher was told last. A partition that returned records moves to the end of the session's order, so that
none starves while others fill every response.

A session lives until another one needs its slot. If all ``max.incremental.fetch.session.cache.slots`` are taken, a new
session evicts one that has been idle for two minutes. If there is none, it evicts the session with the fewest
partitions, among those that have held their slots for two minutes. If that fails too, the fetcher gets session id 0
and sends full requests. All sessions together also remember at most ``MOST_PARTITIONS``, which Kafka does not limit.
Beyond that, idle sessions are evicted, and a session that grows too large ends. No session begins for a topic name of
more than ``LONGEST_NAME`` characters, which no topic has.

A session may have partitions that its owner may not read, or that do not exist, as in Kafka: this may change later.
Principals share slots and partitions, so that no principal takes all of them. A new session may evict the least
recently used session of the principal that has most. That principal must have more than the new session's owner would
then have. No session of a principal that has fewer is evicted. For everybody but its owner, a session does not exist.
Kafka lets others continue or end it, and so tells them its topics.

Pure: time (monotonic milliseconds) and the source of session ids are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from pybroker.replication.fetch_partition import UNKNOWN, FetchPartition, PartitionRead
from pyclient.protocol import errors

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 0x7FFF_FFFF
EVICTION_MS = 120_000
MOST_PARTITIONS = 200_000
"""How many partitions all sessions may have together; each takes up to a kilobyte."""
LONGEST_NAME = 249
"""How many characters a topic's name may have. Clients send any names, and must not fill the memory with them."""

Key = tuple[str | bytes, int]
Answer = tuple[FetchPartition, PartitionRead]


def next_epoch(epoch: int) -> int:
    """Returns the epoch of the request that follows ``epoch``."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchSession:
    """One fetcher's partitions, in the order in which they are read."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "owner",
        "partitions",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self, id: int, partitions: dict[Key, FetchPartition], uses_topic_ids: bool, now_ms: int, owner: str
    ) -> None:
        self.id = id
        self.owner = owner
        """The principal that began the session."""
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The epoch that the next request must name."""
        self.created_ms = now_ms
        self.used_ms = now_ms

    def update(self, changed: Iterable[FetchPartition], forgotten: Iterable[Key]) -> None:
        """Applies the changes that an incremental request names."""
        for partition in changed:
            known = self.partitions.setdefault(partition.key, partition)
            if known is not partition:
                known.update(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    def value(self) -> tuple[int, int]:
        """Returns the value of the session: a session with a smaller value is evicted before one with a larger."""
        return len(self.partitions), self.id


class Context:
    """One fetch request in its session: has the partitions to read, and chooses which of them the response carries.

    This class is for a fetch without a session.
    """

    __slots__ = ("partitions",)

    def __init__(self, partitions: Sequence[FetchPartition]) -> None:
        self.partitions = partitions
        """The partitions to read, in this order."""

    def answer(self, reads: list[PartitionRead], now_ms: int) -> tuple[int, list[Answer]]:
        """Returns the session id and the partitions of the response. Raises InvalidFetchSessionEpoch."""
        answers = self.some(zip(self.partitions, reads, strict=True))
        return self.end(now_ms), answers

    def some(self, reads: Iterable[Answer]) -> list[Answer]:
        """Returns the partitions among the next ``reads`` that the response must carry.

        Raises InvalidFetchSessionEpoch.
        """
        return list(reads)

    def end(self, now_ms: int) -> int:
        """Returns the session's id. Call it after ``some`` has been called for all partitions."""
        return NO_SESSION

    def put_off(self) -> int:
        """Returns the session's id for a response without partitions. Raises InvalidFetchSessionEpoch."""
        return NO_SESSION


def _are_short(partitions: Iterable[FetchPartition]) -> bool:
    return all(each.topic is None or len(each.topic) <= LONGEST_NAME for each in partitions)


class FullContext(Context):
    """The first request of a session. The session is created with the response."""

    __slots__ = ("_is_short", "_own", "_owner", "_sessions", "_uses_topic_ids")

    def __init__(
        self, partitions: Sequence[FetchPartition], sessions: FetchSessions, uses_topic_ids: bool, owner: str
    ) -> None:
        super().__init__(partitions)
        self._owner = owner
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self._own: dict[Key, FetchPartition] = {}
        self._is_short = True

    def some(self, reads: Iterable[Answer]) -> list[Answer]:
        """Returns all ``reads``, and notes in each partition the offsets that the response has."""
        answers = list(reads)
        for partition, read in answers:
            has_news(partition, read)
            self._own[partition.key] = partition
        self._is_short = self._is_short and _are_short(partition for partition, _ in answers)
        return answers

    def end(self, now_ms: int) -> int:
        """Creates the session and returns its id, NO_SESSION if there is no room for it."""
        if not self._is_short:
            return NO_SESSION
        session = self._sessions.create(self._own, self._uses_topic_ids, now_ms, self._owner)
        return NO_SESSION if session is None else session.id


class IncrementalContext(Context):
    """A later request of a session, which names only changes."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        super().__init__(list(session.partitions.values()))
        self._session = session
        self._epoch = session.epoch

    def some(self, reads: Iterable[Answer]) -> list[Answer]:
        """Returns the partitions with news. Raises InvalidFetchSessionEpoch if a newer request of the session came."""
        session = self._session
        self.put_off()
        answers = []
        for partition, read in reads:
            if has_news(partition, read):
                answers.append((partition, read))
                if read.size and session.partitions.pop(partition.key, None) is not None:
                    session.partitions[partition.key] = partition
        return answers

    def end(self, now_ms: int) -> int:
        """Returns the session's id, because the session continues."""
        return self._session.id

    def put_off(self) -> int:
        """Returns the session's id. The next response will carry the changes that this one leaves out."""
        session = self._session
        if session.epoch != self._epoch:
            raise errors.InvalidFetchSessionEpoch(
                f"session {session.id} is in epoch {session.epoch}, no longer in {self._epoch}"
            )
        return session.id


def has_news(partition: FetchPartition, read: PartitionRead) -> bool:
    """Returns whether an incremental response must carry the partition; if so, notes the response's offsets."""
    news = (
        read.size > 0
        or read.high_watermark != partition.sent_high_watermark
        or read.log_start_offset != partition.sent_log_start_offset
        or read.preferred_read_replica != UNKNOWN
        or read.is_urgent
    )
    if news:
        partition.sent_log_start_offset = read.log_start_offset
        # after an error, the next response has the partition again, even without news
        partition.sent_high_watermark = UNKNOWN if read.is_urgent else read.high_watermark
    return news


class Share:
    """The sessions of one principal, the least recently used one first, and the number of their partitions."""

    __slots__ = ("partitions", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self.partitions = 0

    def __len__(self) -> int:
        return len(self.sessions)

    def oldest(self) -> int:
        """Returns the id of the least recently used session. There must be one."""
        return next(iter(self.sessions))


class FetchSessions:
    """All sessions of a broker, in a bounded number of slots, least recently used first."""

    def __init__(self, slots: int, random_id: Callable[[], int]) -> None:
        """``random_id`` returns a session id from 1 to 2^31-1."""
        self._slots = slots
        self._random_id = random_id
        self._sessions: dict[int, FetchSession] = {}
        self._shares: dict[str, Share] = {}
        """The sessions of each principal, by principal."""
        self.partitions = 0
        """How many partitions all sessions together remember."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, id: int) -> bool:
        return id in self._sessions

    def context(
        self,
        session_id: int,
        epoch: int,
        partitions: dict[Key, FetchPartition],
        forgotten: Iterable[Key],
        uses_topic_ids: bool,
        now_ms: int,
        owner: str,
    ) -> Context:
        """Returns the context of a request of a principal, and begins, continues or ends its session.

        Raises FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if self._find(session_id, owner) is not None:
                self._end(session_id)
            wanted = tuple(partitions.values())
            if epoch == FINAL_EPOCH:
                return Context(wanted)
            return FullContext(wanted, self, uses_topic_ids, owner)
        session = self.update(session_id, epoch, partitions.values(), forgotten, uses_topic_ids, owner)
        if not session.partitions:
            self._end(session_id)
            return Context(())
        self._touch(session, now_ms)  # it is in use, so that only other sessions may be evicted as idle
        if not self._has_room(now_ms, session.owner):
            self._end(session_id)
            raise errors.FetchSessionIdNotFound(f"session {session_id} has grown too large")
        session.epoch = next_epoch(epoch)
        return IncrementalContext(session)

    def update(
        self,
        session_id: int,
        epoch: int,
        partitions: Iterable[FetchPartition],
        forgotten: Iterable[Key],
        uses_topic_ids: bool,
        owner: str,
    ) -> FetchSession:
        """Applies an incremental request's changes, or some of them, to the session, and returns the session.

        Raises the errors of ``context``.
        """
        session = self._find(session_id, owner)
        if session is None:
            raise errors.FetchSessionIdNotFound(f"there is no fetch session {session_id}")
        if session.epoch != epoch:
            raise errors.InvalidFetchSessionEpoch(f"session {session_id} is in epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            began, now = ("ids", "names") if session.uses_topic_ids else ("names", "ids")
            raise errors.FetchSessionTopicIdError(f"session {session_id} began with topic {began}, not with {now}")
        if not _are_short(partitions):
            self._end(session_id)
            raise errors.FetchSessionIdNotFound(f"session {session_id} has ended, as no topic has a name so long")
        before = len(session.partitions)
        session.update(partitions, forgotten)
        self._count(session, len(session.partitions) - before)
        return session

    def create(
        self, partitions: dict[Key, FetchPartition], uses_topic_ids: bool, now_ms: int, owner: str
    ) -> FetchSession | None:
        """Creates and returns a session of a principal; returns None if there is no room for so many partitions."""
        if not self._has_room(now_ms, owner, len(partitions)):
            return None
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms, owner):
            return None
        id = self._random_id()
        while id in self._sessions:
            id = self._random_id()
        session = self._sessions[id] = FetchSession(id, partitions, uses_topic_ids, now_ms, owner)
        self._shares.setdefault(owner, Share()).sessions[id] = session
        self._count(session, len(partitions))
        return session

    def _find(self, id: int, owner: str) -> FetchSession | None:
        session = self._sessions.get(id)
        return session if session is not None and session.owner == owner else None

    def _count(self, session: FetchSession, more: int) -> None:
        self.partitions += more
        self._shares[session.owner].partitions += more

    def _end(self, id: int) -> None:
        session = self._sessions.pop(id, None)
        if session is not None:
            self._count(session, -len(session.partitions))
            share = self._shares[session.owner]
            del share.sessions[id]
            if not share.sessions:
                del self._shares[session.owner]

    def _has_room(self, now_ms: int, owner: str, more: int = 0) -> bool:
        """Evicts sessions until ``more`` partitions of the principal fit; returns False if they still do not fit."""
        while self.partitions + more > MOST_PARTITIONS and self._sessions:
            own = self._shares.get(owner)
            would_have = more if own is None else own.partitions + more
            if not (self._end_idle(now_ms) or self._end_of_largest(attrgetter("partitions"), would_have)):
                break
        return self.partitions + more <= MOST_PARTITIONS

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        for sessions in (self._sessions, self._shares[session.owner].sessions):
            sessions[session.id] = sessions.pop(session.id)

    def _end_idle(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms <= EVICTION_MS:
            return False
        self._end(oldest.id)
        return True

    def _end_of_largest(self, size_of: Callable[[Share], int], would_have: int) -> bool:
        """Evicts a session of the principal that has most; returns False if that is not more than ``would_have``."""
        largest = max(self._shares.values(), key=size_of, default=None)
        if largest is None or size_of(largest) <= would_have:
            return False
        self._end(largest.oldest())
        return True

    def _evict(self, size: int, now_ms: int, owner: str) -> bool:
        """Evicts a session in favour of a new one with ``size`` partitions; returns False if none may be evicted."""
        if self._end_idle(now_ms):
            return True
        count = len(self._shares.get(owner, ()))
        evictable = (
            each
            for each in self._sessions.values()
            if each.used_ms - each.created_ms > EVICTION_MS and len(self._shares[each.owner]) >= count
        )
        least = min(evictable, key=FetchSession.value, default=None)
        if least is None or (size, 0) < least.value():
            return self._end_of_largest(len, count + 1)
        self._end(least.id)
        return True
