"""The fetch session in which this broker fetches many partitions from one leader (KIP-227).

The first request of a session names every partition. Later requests name only partitions whose position has changed,
and partitions to forget; the leader answers with news only. A partition that fails leaves the session and returns after
a pause, so that it does not delay the others.

    next_request(…) -> request ... on_response(number, response, …) or on_failure()

While a request waits at the leader for records, a second one may report a change, such as a new partition. The leader
then answers the first at once. Responses come in order. A follower names each position only once. So a response is used
for a partition only if the log still ends at the last position that was named in that request or before. While a log is
truncated in pieces, its partition is not in the session: ``go_on_cutting`` does one piece of one log at a time.

Pure: time is an argument (``now_ms`` monotonic, ``wall_ms`` of the wall clock); the caller has the sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pybroker.replication.fetch_session import INITIAL_EPOCH, NO_SESSION, next_epoch
from pybroker.replication.following.follower import FIRST_PAUSE_MS, Followed, Key
from pybroker.replication.partition import Partition
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Fetch, errors

Request = Fetch.Request
MAX_IN_FLIGHT: Final = 2
NEVER_MS: Final = 1 << 62
REST_MS: Final = 1
"""The pause between two pieces of a truncation."""

Throttle = Callable[[TopicPartition, int, int, int], int]
"""Returns how many milliseconds to wait; see ``ReplicationThrottle.delay_ms``."""

_NOT_YET = (
    errors.NotLeaderOrFollower.code,
    errors.FencedLeaderEpoch.code,
    errors.UnknownLeaderEpoch.code,
    errors.UnknownTopicId.code,
    errors.UnknownTopicOrPartition.code,
    errors.LeaderNotAvailable.code,
)
"""Temporary errors: one of the two brokers has not applied the latest metadata yet."""

logger = logging.getLogger(__name__)


class FetchLimits(NamedTuple):
    """The limits of followers' fetches: the settings ``replica.fetch.*``."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576
    backoff_ms: int = 1000

    def longer(self, pause_ms: int) -> int:
        """Returns the pause that follows ``pause_ms``: twice as long, up to ``backoff_ms``."""
        return min(pause_ms * 2, max(self.backoff_ms, FIRST_PAUSE_MS))


class Source:
    """The partitions that are followed at one leader, and the fetch session with it."""

    def __init__(
        self,
        leader: int,
        node_id: int,
        broker_epoch: Callable[[], int],
        limits: FetchLimits,
        throttle: Throttle,
    ) -> None:
        self.leader = leader
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._throttle = throttle
        self._followed: dict[Key, Followed] = {}
        self._news: dict[Key, Followed] = {}
        """Partitions whose position may differ from the last one that was named to the leader."""
        self._to_keep: dict[Key, Followed] = {}
        """Partitions whose log start is not durable yet, and which ``take_starts_to_keep`` has not returned yet."""
        self._paused: dict[Key, Followed] = {}
        self._due_ms = NEVER_MS
        """The earliest time at which a paused partition may be fetched again."""
        self._in_session: set[Key] = set()
        self._forget: set[Key] = set()
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._number = 0
        self._first_of_session = 0
        """The number of the request that began the session; responses to older requests are ignored."""
        self._in_flight = 0

    def __len__(self) -> int:
        return len(self._followed)

    # Partitions

    def follow(self, partition: Partition, wall_ms: int) -> None:
        """Begins to follow the partition, or continues in a new leader epoch.

        Raises CorruptMessage, KafkaStorageError.
        """
        followed = Followed(partition, wall_ms)
        key = followed.key
        self._followed[key] = self._news[key] = followed
        self._note_start(followed)
        self._paused.pop(key, None)
        self._forget.discard(key)
        if followed.cut is not None:
            self._put_off(followed, 0)

    def drop(self, key: Key) -> None:
        """Stops following the partition."""
        if self._followed.pop(key, None) is not None:
            self._news.pop(key, None)
            self._to_keep.pop(key, None)
            self._paused.pop(key, None)
            self._take_out(key)

    def _take_out(self, key: Key) -> None:
        if key in self._in_session:
            self._in_session.discard(key)
            self._forget.add(key)

    # Log starts

    def _note_start(self, followed: Followed) -> None:
        if followed.must_keep_start:
            self._to_keep[followed.key] = followed

    def take_starts_to_keep(self) -> list[Partition]:
        """Returns the partitions for which to call ``Log.keep_start``, and then ``on_kept``."""
        found, self._to_keep = self._to_keep, {}
        return [followed.partition for followed in found.values()]

    def on_kept(self, key: Key) -> None:
        """Reports the partition's log start to the leader if it is durable now; else queues it again."""
        followed = self._followed.get(key)
        if followed is not None:
            self._note_start(followed)
            if key not in self._paused:
                self._news[key] = followed

    # Asking

    def may_ask(self, now_ms: int) -> bool:
        """Returns True if a request should be sent now, besides those in flight."""
        self._resume(now_ms)
        if self._in_flight == 0:
            return len(self._followed) > len(self._paused)
        if self._in_flight >= MAX_IN_FLIGHT or self._epoch == INITIAL_EPOCH or self._session_id == NO_SESSION:
            return False
        return bool(self._forget) or any(map(self._is_news, self._news.values()))

    def _is_news(self, followed: Followed) -> bool:
        """Returns True if the next request must name the partition: its position is new, or it left the session."""
        return followed.position != followed.asked or followed.key not in self._in_session

    def _resume(self, now_ms: int) -> None:
        if self._due_ms > now_ms:
            return
        for key, followed in tuple(self._paused.items()):
            if followed.retry_at_ms <= now_ms and followed.cut is None and not followed.is_unsynced:
                del self._paused[key]
                self._forget.discard(key)
                self._news[key] = followed
        self._due_ms = min((each.retry_at_ms for each in self._paused.values()), default=NEVER_MS)

    def await_sync(self, key: Key, now_ms: int) -> None:
        """Pauses a partition whose log could not be synced, until ``take_unsynced`` returns it."""
        followed = self._followed.get(key)
        if followed is not None:
            followed.is_unsynced = True
            self._pause(followed, now_ms)

    def take_unsynced(self, now_ms: int) -> Partition | None:
        """Returns a partition that ``await_sync`` has paused and whose pause is over. The caller syncs its log."""
        if self._due_ms > now_ms:
            return None
        for followed in self._paused.values():
            if followed.is_unsynced and followed.retry_at_ms <= now_ms:
                followed.is_unsynced = False
                return followed.partition
        return None

    def next_due_ms(self) -> int | None:
        """Returns the earliest time at which a paused partition is due, None if none is paused."""
        return self._due_ms if self._paused else None

    def next_request(self) -> tuple[int, Fetch.Request]:
        """Returns the next request and its number. Call it only if ``may_ask`` returned True."""
        self._number += 1
        self._in_flight += 1
        if self._epoch == INITIAL_EPOCH:
            return self._number, self._first()
        request = self._request()
        for followed in self._news.values():
            if self._is_news(followed):
                self._name(request, followed)
        for topic_id, index in self._forget:
            request.forgotten_topics_data.append(Request.ForgottenTopic(topic_id=topic_id, partitions=[index]))
        self._news.clear()
        self._forget.clear()
        self._epoch = next_epoch(self._epoch)
        return self._number, request

    def _first(self) -> Fetch.Request:
        """Returns the first request of a session, which names every partition that is not paused."""
        self._first_of_session = self._number
        self._in_session.clear()
        self._forget.clear()
        self._news.clear()
        request = self._request()
        for key, followed in self._followed.items():
            if key not in self._paused:
                self._name(request, followed)
        return request

    def _request(self) -> Fetch.Request:
        limits = self._limits
        return Request(
            replica_state=Request.ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
        )

    def _name(self, request: Fetch.Request, followed: Followed) -> None:
        position = followed.position
        if followed.key not in self._in_session or not position.is_same_place(followed.asked):
            followed.asked_in = self._number
        followed.asked = position
        self._in_session.add(followed.key)
        topic_id, index = followed.key
        if not request.topics or request.topics[-1].topic_id != topic_id:
            request.topics.append(Request.FetchTopic(topic_id=topic_id))
        request.topics[-1].partitions.append(
            Request.FetchPartition(
                partition=index,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=self._limits.partition_max_bytes,
            )
        )

    # Hearing

    def on_response(self, number: int, response: Any, now_ms: int, wall_ms: int) -> list[Partition]:
        """Handles the response to request ``number``; returns the partitions whose logs it has changed."""
        self._in_flight -= 1
        if number < self._first_of_session:
            return []
        if response.error_code:
            self.end_session()
            return []
        if number == self._first_of_session:
            self._session_id = response.session_id
            self._epoch = next_epoch(INITIAL_EPOCH) if response.session_id else INITIAL_EPOCH
        changed = []
        for topic in response.responses:
            for answer in topic.partitions:
                followed = self._followed.get((topic.topic_id, answer.partition_index))
                if followed is not None and followed.key not in self._paused and followed.is_answer(number):
                    if self._take(followed, answer, now_ms, wall_ms):
                        changed.append(followed.partition)
                    self._note_start(followed)
                    if followed.key not in self._paused:
                        self._news[followed.key] = followed
        return changed

    def _take(self, followed: Followed, answer: Any, now_ms: int, wall_ms: int) -> bool:
        try:
            if answer.error_code == errors.OffsetOutOfRange.code and answer.log_start_offset >= 0:
                name, position = followed.partition.topic_partition, followed.position
                logger.warning("%s: %s is outside the leader's log; the whole log is fetched again", name, position)
                has_begun = followed.start_over(answer.log_start_offset, wall_ms)
                if followed.cut is not None:
                    self._put_off(followed, now_ms)
                return has_begun
            if not answer.error_code:
                changed = followed.take(answer, wall_ms)
                if answer.records:
                    self._hold(followed, len(answer.records), now_ms)
                if followed.cut is not None:
                    self._put_off(followed, now_ms)
                return changed
            self._on_error(followed, answer.error_code)
        except errors.KafkaError as error:
            logger.error("%s cannot follow its leader: %s", followed.partition.topic_partition, error)
        except Exception:
            logger.exception("%s cannot follow its leader", followed.partition.topic_partition)
        self._pause(followed, now_ms)
        return False

    def go_on_cutting(self, now_ms: int, wall_ms: int) -> Partition | None:
        """Does another piece of a truncation in progress; after the last piece, returns the partition."""
        if self._due_ms > now_ms:
            return None
        followed = next((each for each in self._paused.values() if each.cut is not None), None)
        if followed is None:
            return None
        del self._paused[followed.key]  # if it pauses again, it is behind the others
        try:
            is_over = followed.go_on_cutting(wall_ms)
        except errors.KafkaError as error:
            logger.error("%s cannot be truncated: %s", followed.partition.topic_partition, error)
        except Exception:
            logger.exception("%s cannot be truncated", followed.partition.topic_partition)
        else:
            self._put_off(followed, now_ms if is_over else now_ms + REST_MS)
            return followed.partition if is_over else None
        self._pause(followed, now_ms)
        return None

    def _on_error(self, followed: Followed, code: int) -> None:
        name = getattr(errors.by_code(code), "name", code)
        level = logging.DEBUG if code in _NOT_YET else logging.WARNING
        logger.log(level, "%s: leader %d answers with %s", followed.partition.topic_partition, self.leader, name)

    def _hold(self, followed: Followed, used_bytes: int, now_ms: int) -> None:
        """Pauses a throttled replica that is not in sync until its rate allows for these bytes."""
        name = followed.partition.topic_partition
        delay_ms = self._throttle(name, self._node_id, used_bytes, now_ms)
        if delay_ms > 0:
            self._put_off(followed, now_ms + delay_ms)

    def _pause(self, followed: Followed, now_ms: int) -> None:
        self._put_off(followed, now_ms + followed.next_pause_ms(self._limits.backoff_ms))

    def _put_off(self, followed: Followed, until_ms: int) -> None:
        followed.retry_at_ms = until_ms
        self._due_ms = min(self._due_ms, until_ms)
        self._paused[followed.key] = followed
        self._news.pop(followed.key, None)
        self._take_out(followed.key)

    def on_failure(self) -> None:
        """Ends the session, because a request was lost."""
        self._in_flight -= 1
        self.end_session()

    def end_session(self) -> None:
        """Ends the session. The next request begins a new one."""
        self._epoch = INITIAL_EPOCH
        self._first_of_session = self._number + 1
