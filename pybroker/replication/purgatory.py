"""Requests that wait for partitions.

A waiting request is its own future, found under each partition that may end its wait. Code that changes a partition
(an append, a higher high watermark, a sync, a new leader, a failed disk) calls ``wake``. The request then checks its
condition and is answered at once if it is met, without a timer or a scan over all waiting requests. A wait also ends
at its deadline, or with its connection: ``cancel``. The first of these removes the request from every list.

A fetch of many partitions is put under them, and taken out, in several turns of the loop (``WaitingForMany``). What all
of these remember is limited: where there are more, the one that has waited longest is answered with what it has.

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
"""Partitions out of whose lists a turn of the loop takes requests that are done."""
FEW: Final = 100
MOST_WATCHED: Final = 500_000
"""Partitions of all waiting requests that watch more than ``FEW``; each takes half a kilobyte."""


class Waiting(asyncio.Future[Any]):
    """A request that waits; done with its response, with a ``KafkaError``, or cancelled."""

    def __init__(self, purgatory: Purgatory) -> None:
        super().__init__(loop=purgatory.loop)
        self.purgatory = purgatory
        self.watched: Sequence[Partition] = ()
        self.deadline: Deadline | None = None

    def woken(self, number: int) -> None:
        """The partition that was given at ``number`` has changed."""

    def expired(self) -> None:
        """The deadline has come."""

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
            self.exception()  # a waiter still gets it, but none is required

    def cancel(self, msg: Any = None) -> bool:
        """Ends the wait without an answer, because the connection is gone."""
        if not self.done():
            self.purgatory.remove(self)
        return super().cancel(msg)


class WaitingFetch(Waiting):
    """A fetch that has not enough: done with ``respond(reads)``."""

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
        """Reads that partition again. Errors do not concern the caller of ``wake``."""
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
        """Answers with what there is."""
        try:
            response = self._respond(self._fetch.reads)
        except Exception as error:
            self.fail(error)
        else:
            self.answer(response)


class WaitingForMany(WaitingFetch):
    """A fetch of many partitions: done with None when it is to be answered."""

    def __init__(self, purgatory: Purgatory, fetch: Fetch) -> None:
        super().__init__(purgatory, fetch, lambda reads: None)
        self._entered: list[Partition] = []
        self.watched = self._entered

    def watch(self, numbers: Sequence[int]) -> None:
        """Waits for these partitions of the fetch as well; what has changed since it was read is read again."""
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
    """The promise of acks=all: done with None when the records are where they have to be."""

    def __init__(self, purgatory: Purgatory, partition: Partition, last_offset: int, synced: bool) -> None:
        """``synced``: whether they must be on this broker's disk (``flush.acks``)."""
        super().__init__(purgatory)
        self._partition = partition
        self._last_offset = last_offset
        self._synced = synced

    def woken(self, number: int = 0) -> None:
        """Looks whether the promise holds now, or cannot be kept for the time being."""
        try:
            if self.holds():
                self.answer(None)
            elif self._partition.is_stuck:
                self.fail(errors.NotEnoughReplicasAfterAppend(f"{self._partition} lost too many in-sync replicas"))
        except errors.KafkaError as error:
            self.fail(error)

    def holds(self) -> bool:
        """True where it does; raises as ``Partition.is_replicated``."""
        if not self._partition.is_replicated(self._last_offset):
            return False
        return not self._synced or self._partition.log.recovery_point > self._last_offset

    def expired(self) -> None:
        """The producer waits no longer; the records stay."""
        self.fail(errors.RequestTimedOut(f"{self._partition.topic_partition} is not replicated yet"))


class WaitingDelete(Waiting):
    """DeleteRecords: done with the low watermark when it has reached an offset."""

    def __init__(self, purgatory: Purgatory, partition: Partition, offset: int) -> None:
        super().__init__(purgatory)
        self._partition = partition
        self._offset = offset

    def woken(self, number: int = 0) -> None:
        """Looks whether every replica has deleted."""
        try:
            low_watermark = self._partition.low_watermark()
        except errors.KafkaError as error:
            self.fail(error)
        else:
            if low_watermark >= self._offset:
                self.answer(low_watermark)

    def expired(self) -> None:
        """Some replica is late."""
        self.fail(errors.RequestTimedOut("not every replica has deleted the records yet"))


class Watcher(Protocol):
    """What wants to know of changes: a request that waits, or a session of them."""

    def woken(self, number: Any) -> None:
        """The partition that was given under ``number`` has changed."""

    def cancel(self, msg: Any = None) -> bool:
        """The broker stops."""
        ...


class Purgatory:
    """All that waits on this broker, by partition."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._deadlines = Deadlines(loop)
        self._waiting: dict[Partition, dict[Watcher, Any]] = {}
        self._many: dict[Waiting, int] = {}
        """Requests that watch more than a few partitions, and how many; the one that has waited longest comes first."""
        self._watched = 0
        """Partitions of all these."""
        self._leaving: deque[tuple[Waiting, list[Partition]]] = deque()
        """The requests that are done, and in whose lists they still are."""

    def __len__(self) -> int:
        """How many requests wait, or are still in some list."""
        found = {each for watchers in self._waiting.values() for each in watchers}
        return sum(isinstance(each, Waiting) for each in found)

    def park(self, waiting: Waiting, partitions: Iterable[Partition], timeout_ms: int) -> None:
        """``waiting`` waits for a change of any of ``partitions``, at most ``timeout_ms``."""
        waiting.watched = tuple(partitions)
        for number, partition in enumerate(waiting.watched):
            self.watch(waiting, partition, number)
        waiting.deadline = self._deadlines.add(timeout_ms, waiting.expired)
        if len(waiting.watched) > FEW:
            self._remember(waiting, len(waiting.watched))

    def begin(self, fetch: Fetch, timeout_ms: int) -> WaitingForMany:
        """The wait of a fetch of many partitions, for at most ``timeout_ms``. ``watch`` adds the partitions."""
        waiting = WaitingForMany(self, fetch)
        waiting.deadline = self._deadlines.add(timeout_ms, waiting.expired)
        self._remember(waiting, len(fetch.partitions))
        return waiting

    def _remember(self, waiting: Waiting, count: int) -> None:
        """Watches so many more partitions: others end their waits where there are too many."""
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
        """Stops calling it."""
        watchers = self._waiting[partition]
        del watchers[watcher]
        if not watchers:
            del self._waiting[partition]

    def wake(self, partition: Partition) -> None:
        """``partition`` has changed."""
        watchers = self._waiting.get(partition)
        if watchers:
            for waiting, number in tuple(watchers.items()):
                waiting.woken(number)

    def remove(self, waiting: Waiting) -> None:
        """``waiting`` is about to be done."""
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
        """Takes requests that are done out of some of their lists, of others in the next turns of the loop."""
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
        """Cancels everything that waits."""
        for watchers in list(self._waiting.values()):
            for waiting in list(watchers):
                waiting.cancel()
        self._deadlines.close()
