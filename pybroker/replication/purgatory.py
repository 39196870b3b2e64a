"""Requests that wait for partitions.

A waiting request is its own future, registered under each partition that may end its wait. Code that changes a
partition (an append, an advanced high watermark, a sync, a new leader, a failed disk) calls ``wake``. The request then
checks its condition, and is answered at once if the condition is met. This needs no timer and no scan over all waiting
requests. A wait also ends at its deadline, or with its connection (``cancel``). The first of these events removes the
request from all lists.

A fetch of many partitions is registered, and removed, in several turns of the loop (``WaitingForMany``). All these
fetches together may watch ``MOST_WATCHED`` partitions. Beyond that, the fetch that has waited longest is answered with
the records that it has.

Loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from pybroker.replication.deadlines import Deadline, Deadlines
from pybroker.replication.fetch_partition import PartitionRead
from pybroker.replication.fetching import Fetch
from pybroker.replication.partition import Partition
from pyclient.protocol import errors

PIECE: Final = 500
"""From how many partitions' lists one turn of the loop removes finished requests."""
FEW: Final = 100
MOST_WATCHED: Final = 500_000
"""How many partitions all requests with more than ``FEW`` may watch; each takes half a kilobyte."""


class Waiting(asyncio.Future[Any]):
    """A waiting request: a future that ends with its response, with a ``KafkaError``, or cancelled."""

    def __init__(self, purgatory: Purgatory) -> None:
        super().__init__(loop=purgatory.loop)
        self.purgatory = purgatory
        self.watched: Sequence[Partition] = ()
        self.deadline: Deadline | None = None

    def woken(self, number: int) -> None:
        """Called when the partition registered as ``number`` has changed."""

    def expired(self) -> None:
        """Called at the deadline."""

    def answer(self, response: object) -> None:
        """Ends the wait with the response."""
        if not self.done():
            self.purgatory.remove(self)
            self.set_result(response)

    def fail(self, error: Exception) -> None:
        """Ends the wait with an error."""
        if not self.done():
            self.purgatory.remove(self)
            self.set_exception(error)
            self.exception()  # a waiter still gets the error, but without a waiter nothing is logged

    def cancel(self, msg: Any = None) -> bool:
        """Ends the wait without an answer, because the connection is gone."""
        if not self.done():
            self.purgatory.remove(self)
        return super().cancel(msg)


class WaitingFetch(Waiting):
    """A fetch that does not have enough bytes yet: ends with ``respond(reads)``."""

    def __init__(
        self,
        purgatory: Purgatory,
        fetch: Fetch,
        respond: Callable[[list[PartitionRead]], object],
    ) -> None:
        super().__init__(purgatory)
        self._fetch = fetch
        self._respond = respond

    def woken(self, number: int) -> None:
        """Reads that partition again. An error goes to the fetch and not to the caller of ``wake``."""
        if self.done():  # one of many partitions may still be in some lists
            return
        try:
            enough = self._fetch.read_again(number)
        except Exception as error:
            self.fail(error)
        else:
            if enough:
                self.expired()

    def expired(self) -> None:
        """Answers with the records that have been read."""
        try:
            response = self._respond(self._fetch.reads)
        except Exception as error:
            self.fail(error)
        else:
            self.answer(response)


class WaitingForMany(WaitingFetch):
    """A fetch of many partitions: ends with None when it should be answered."""

    def __init__(self, purgatory: Purgatory, fetch: Fetch) -> None:
        super().__init__(purgatory, fetch, lambda reads: None)
        self._entered: list[Partition] = []
        self.watched = self._entered

    def watch(self, numbers: Sequence[int]) -> None:
        """Also waits for these partitions of the fetch; reads those again that have changed since the first read."""
        partitions, reads = self._fetch.partitions, self._fetch.reads
        for number in numbers:
            if self.done():
                return
            partition = partitions[number]
            if partition is not None:
                self._entered.append(partition)
                self.purgatory.watch(self, partition, number)
                if partition.log.high_watermark != reads[number].high_watermark:
                    self.woken(number)


class WaitingAck(Waiting):
    """A produce with acks=all: ends with None when the records are as safe as it requires."""

    def __init__(self, purgatory: Purgatory, partition: Partition, last_offset: int, synced: bool) -> None:
        """With ``synced``, the records must also be on this broker's disk (``flush.acks``)."""
        super().__init__(purgatory)
        self._partition = partition
        self._last_offset = last_offset
        self._synced = synced

    def woken(self, number: int = 0) -> None:
        """Ends the wait if acks=all is fulfilled, or fails it if too few replicas are in sync."""
        try:
            if self.holds():
                self.answer(None)
            elif self._partition.is_stuck:
                self.fail(errors.NotEnoughReplicasAfterAppend(f"{self._partition} lost too many in-sync replicas"))
        except errors.KafkaError as error:
            self.fail(error)

    def holds(self) -> bool:
        """Returns True if acks=all is fulfilled. Raises the errors of ``Partition.is_replicated``."""
        if not self._partition.is_replicated(self._last_offset):
            return False
        return not self._synced or self._partition.log.recovery_point > self._last_offset

    def expired(self) -> None:
        """Fails the wait with RequestTimedOut; the records stay in the log."""
        self.fail(errors.RequestTimedOut(f"{self._partition.topic_partition}: the records are not replicated yet"))


class WaitingDelete(Waiting):
    """A DeleteRecords request: ends with the low watermark when that has reached its offset."""

    def __init__(self, purgatory: Purgatory, partition: Partition, offset: int) -> None:
        super().__init__(purgatory)
        self._partition = partition
        self._offset = offset

    def woken(self, number: int = 0) -> None:
        """Ends the wait if every replica has deleted the records."""
        try:
            low_watermark = self._partition.low_watermark()
        except errors.KafkaError as error:
            self.fail(error)
        else:
            if low_watermark >= self._offset:
                self.answer(low_watermark)

    def expired(self) -> None:
        """Fails the wait with RequestTimedOut, because some replica is late."""
        self.fail(errors.RequestTimedOut("not every replica has deleted the records yet"))


class Watcher(Protocol):
    """Waits for changes of partitions: a waiting request, or a follower's session."""

    def woken(self, number: Any) -> None:
        """Called when the partition registered as ``number`` has changed."""

    def cancel(self, msg: Any = None) -> bool:
        """Called when the broker stops."""
        ...


class Purgatory:
    """All waiting requests of this broker, by partition."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._deadlines = Deadlines(loop)
        self._waiting: dict[Partition, dict[Watcher, Any]] = {}
        self._many: dict[Waiting, int] = {}
        """Requests that watch more than ``FEW`` partitions, with the number of these; the oldest comes first."""
        self._watched = 0
        """How many partitions all these requests watch together."""
        self._leaving: deque[tuple[Waiting, list[Partition]]] = deque()
        """Finished requests, and the partitions in whose lists they still are."""

    def __len__(self) -> int:
        """Counts the requests that wait or are still in a list."""
        found = {each for watchers in self._waiting.values() for each in watchers}
        return sum(isinstance(each, Waiting) for each in found)

    def park(self, waiting: Waiting, partitions: Iterable[Partition], timeout_ms: int) -> None:
        """Lets ``waiting`` wait for a change of any of ``partitions``, for at most ``timeout_ms``."""
        waiting.watched = tuple(partitions)
        for number, partition in enumerate(waiting.watched):
            self.watch(waiting, partition, number)
        waiting.deadline = self._deadlines.add(timeout_ms, waiting.expired)
        if len(waiting.watched) > FEW:
            self._remember(waiting, len(waiting.watched))

    def begin(self, fetch: Fetch, timeout_ms: int) -> WaitingForMany:
        """Begins the wait of a fetch of many partitions, for at most ``timeout_ms``. ``watch`` adds the partitions."""
        waiting = WaitingForMany(self, fetch)
        waiting.deadline = self._deadlines.add(timeout_ms, waiting.expired)
        self._remember(waiting, len(fetch.partitions))
        return waiting

    def _remember(self, waiting: Waiting, count: int) -> None:
        """Counts ``count`` more watched partitions; beyond ``MOST_WATCHED``, ends the oldest waits."""
        self._many[waiting] = count
        self._watched += count
        while self._watched > MOST_WATCHED:
            next(iter(self._many)).expired()

    def watch(self, watcher: Watcher, partition: Partition, number: Any) -> None:
        """Calls ``watcher.woken(number)`` after each change of ``partition``, until ``unwatch``."""
        watchers = self._waiting.get(partition)
        if watchers is None:
            watchers = self._waiting[partition] = {}
        watchers[watcher] = number

    def unwatch(self, watcher: Watcher, partition: Partition) -> None:
        """Stops calling ``watcher`` for ``partition``."""
        watchers = self._waiting[partition]
        del watchers[watcher]
        if not watchers:
            del self._waiting[partition]

    def wake(self, partition: Partition) -> None:
        """Calls all watchers of ``partition``, because it has changed."""
        watchers = self._waiting.get(partition)
        if watchers:
            for waiting, number in tuple(watchers.items()):
                waiting.woken(number)

    def remove(self, waiting: Waiting) -> None:
        """Removes a request that is about to end from all lists."""
        many = self._many.pop(waiting, 0) if self._many else 0
        if many:
            self._watched -= many
            self._leaving.append((waiting, list(waiting.watched)))
            if len(self._leaving) == 1:
                self._take_out()
        else:
            for partition in waiting.watched:
                self.unwatch(waiting, partition)
        waiting.watched = ()
        if waiting.deadline is not None:
            self._deadlines.cancel(waiting.deadline)

    def _take_out(self) -> None:
        """Removes finished requests from ``PIECE`` lists; the next turns of the loop continue with the other lists."""
        left = PIECE
        while left and self._leaving:
            waiting, watched = self._leaving[0]
            while left and watched:
                self.unwatch(waiting, watched.pop())
                left -= 1
            if not watched:
                self._leaving.popleft()
        if self._leaving:
            self.loop.call_soon(self._take_out)

    def close(self) -> None:
        """Cancels all waiting requests."""
        for watchers in list(self._waiting.values()):
            for waiting in list(watchers):
                waiting.cancel()
        self._deadlines.close()
