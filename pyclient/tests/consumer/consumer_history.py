"""A random history of a group's members, compared with a model of what may be read and committed.

A member has processed its records when it polls again, commits, or is closed in order. At any moment

* every record before the committed offset was processed, or skipped by a seek;
* a member gets a partition's records one after the other, and every record before its first one was processed;

and at the end every record was processed at least once. The seed decides which requests fail, before or after they
reach the broker, and at which step calls are cancelled.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from harness.faults.cancelling import cancelled_at
from pyclient import TopicPartition, aio
from pyclient.admin import AlterConfigOp, ConfigResource, ResourceType
from pyclient.errors import ConnectionLost, KafkaError, RequestTimedOut
from pyclient.tests.support import PATIENCE_S

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 1,
    "fetch_max_wait_ms": 50,
    "auto_offset_reset": "earliest",
}
SESSION_MS = 3_000
"""The session timeout, so short that a member whose leave request is lost is soon evicted."""
CLASSIC = {"heartbeat_interval_ms": 100, "session_timeout_ms": SESSION_MS}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {**CLASSIC, "partition_assignment_strategy": "range"},
    "cooperative": {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
MEMBERS = 3
COMMIT_S = 5.0
MOST_STEPS = 12
"""The last step at which a call is cancelled. Most calls have fewer steps."""


class Model:
    """The records that the group has processed in each partition."""

    def __init__(self, places: Collection[TopicPartition]) -> None:
        self.ends = dict.fromkeys(places, 0)
        self.done: dict[TopicPartition, set[int]] = {place: set() for place in places}
        """The offsets of processed records, and of those that a seek has skipped."""

    def undone_before(self, place: TopicPartition, offset: int) -> set[int]:
        return set(range(offset)) - self.done[place]


class Member:
    """A consumer with its unprocessed records. It is its own listener."""

    def __init__(self, history: History, name: str) -> None:
        self.history, self.name, self.model = history, name, history.model
        self.hand: list[tuple[TopicPartition, int]] = []
        self.due: dict[TopicPartition, int] = {}
        """The offset of the next record in each partition that has one."""
        self.listens = history.random.random() < 0.5
        self.commits_by_itself = history.random.random() < 0.5
        own = {"enable_auto_commit": self.commits_by_itself, "auto_commit_interval_ms": 20}
        self.consumer = aio.Consumer(
            config={**history.settings, **own},
            topics=history.topic,
            listener=self if self.listens else None,
            max_poll_records=history.random.choice((1, 3, 100)),
        )
        history.disturb(self.consumer)

    # -- what it hears -----------------------------------------------------------------------------------

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self._forget(partitions)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        if not self.commits_by_itself:
            await self._tried(self.consumer.commit(self._done_of(partitions), timeout=COMMIT_S))
        self._forget(partitions)

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self._forget(partitions)

    def _done_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        first: dict[TopicPartition, int] = {}
        for place, offset in self.hand:
            first.setdefault(place, offset)
        return {place: first.get(place, self.due[place]) for place in partitions if place in self.due}

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            self.due.pop(place, None)

    # -- what it does ------------------------------------------------------------------------------------

    def is_done(self) -> None:
        """Marks the returned records as processed."""
        for place, offset in self.hand:
            self.model.done[place].add(offset)
        self.hand.clear()

    def take(self, record: Any) -> None:
        """Checks and notes a record that the consumer returned."""
        place, offset = TopicPartition(record.topic, record.partition), record.offset
        due = self.due.get(place)
        if due is None or (offset != due and not self.listens):
            undone = self.model.undone_before(place, offset) - {each for at, each in self.hand if at == place}
            assert not undone, f"{self.name} begins at {offset} of {place}: {sorted(undone)} are passed over"
        else:
            assert offset == due, f"{self.name} was given {offset} of {place}, {due} was due"
        self.due[place] = offset + 1
        self.hand.append((place, offset))

    async def poll(self) -> None:
        self.is_done()
        for record in await self.consumer.poll(timeout=self.history.random.choice((0, 0.01, 0.1))):
            self.take(record)

    async def get(self) -> None:
        self.is_done()
        record = await self.consumer.get(timeout=0.05)
        if record is not None:
            self.take(record)

    async def commit(self) -> None:
        self.is_done()
        await self.consumer.commit(timeout=COMMIT_S)

    async def commit_async(self) -> None:
        self.is_done()
        self.consumer.commit_async(on_commit=lambda offsets, error: None)

    async def ask(self) -> None:
        await self.consumer.end_offsets(list(self.model.ends), timeout=COMMIT_S)

    async def seek(self) -> None:
        """Seeks to a random offset. The skipped records need not be returned."""
        for place in sorted(self.consumer.assignment()):
            target = self.history.random.randint(0, self.model.ends[place])
            position = self.consumer.positions().get(place)
            if position is None:
                continue
            self.consumer.seek(place, target)
            self.due[place] = target
            self.model.done[place] |= set(range(target))
            self.hand = [each for each in self.hand if each[0] != place]

    async def pause(self) -> None:
        assigned = sorted(self.consumer.assignment())
        self.consumer.pause(self.history.random.sample(assigned, self.history.random.randint(0, len(assigned))))

    async def resume(self) -> None:
        self.consumer.resume(self.consumer.paused())

    async def close(self) -> None:
        self.is_done()
        await self.consumer.close(timeout=COMMIT_S)

    async def fall(self) -> None:
        """Ends the member by an exception, so its returned records are not processed."""
        await self.consumer.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)

    async def _tried(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except KafkaError as error:
            self.history.note(f"{self.name}: {type(error).__name__}")


class History:
    """One group, drawn with a seed."""

    def __init__(self, bootstrap: str, topic: str, group: str, partitions: int, protocol: str, seed: int) -> None:
        self.random = random.Random(f"{seed} {protocol}")
        self.topic, self.group = topic, group
        self.model = Model([TopicPartition(topic, number) for number in range(partitions)])
        self.settings = {"bootstrap_servers": bootstrap, "group_id": group, **QUICK, **PROTOCOLS[protocol]}
        self.bootstrap = bootstrap
        self.members: list[Member] = []
        self.told: list[str] = []
        self._names = 0
        self._failures = self.random.choice((0.0, 0.02, 0.1))
        self._is_calm = False

    def note(self, what: str) -> None:
        """Keeps a line for the report of a failure."""
        self.told.append(what)

    def disturb(self, consumer: aio.Consumer) -> None:
        """Makes some of the consumer's requests fail: the request does not reach the broker, or the answer does not
        reach the consumer.
        """
        client = consumer._core.client
        post = client.post

        def disturbed(node: int, api: Any, message: Any, on_done: Callable[..., object], **rest: Any) -> None:
            drawn = self.random.random()
            if self._is_calm or drawn >= self._failures:
                post(node, api, message, on_done, **rest)
                return
            kind: KafkaError = ConnectionLost(f"node {node}", api.name, "drawn")
            if self.random.random() < 0.3:
                kind = RequestTimedOut("drawn")
            if drawn * 2 < self._failures:
                client.loop.call_soon(on_done, None, kind)
            else:
                post(node, api, message, lambda *_: on_done(None, kind), **rest)

        client.post = disturbed

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Suspends the failures of requests in the block."""
        before, self._is_calm = self._is_calm, True
        try:
            yield
        finally:
            self._is_calm = before

    async def run(self, steps: int) -> None:
        """Runs the history. Raises AssertionError if the consumer breaks the model."""
        async with aio.Producer(self.bootstrap) as self.producer, aio.Admin(self.bootstrap) as self.admin:
            try:
                session = [AlterConfigOp("consumer.session.timeout.ms", str(SESSION_MS))]
                await self.admin.incremental_alter_configs({ConfigResource(ResourceType.GROUP, self.group): session})
                await self.produce()
                self.join()
                for _ in range(steps):
                    await self._step()
                    await self.check()
                await self._finish()
            finally:
                for member in self.members:
                    await member.consumer.close(timeout=0)

    async def _step(self) -> None:
        actions = (
            *[Member.poll] * 12,
            *[Member.get] * 8,
            *[Member.commit] * 2,
            *(Member.commit_async, Member.ask, Member.seek, Member.pause, Member.pause, Member.resume, Member.resume),
            *(Member.close, Member.fall, Member.fall, None, None, None),
        )
        action = self.random.choice(actions)
        if action is None or not self.members:
            await self.random.choice((self.produce, self._join))()
            return
        member = self.random.choice(self.members)
        if action in (Member.close, Member.fall):
            self.members.remove(member)
        await self._do(member, action)

    async def _do(self, member: Member, action: Callable[[Member], Coroutine[Any, Any, None]]) -> None:
        """Performs one action of a member, which may be cancelled."""
        step = self.random.randint(1, MOST_STEPS) if self.random.random() < 0.3 else 0
        was_cancelled, outcome = await cancelled_at(
            step, lambda: action(member), self.random.random() < 0.5, may_raise=KafkaError
        )
        how = f", cancelled at {step}" if was_cancelled else ""
        self.note(f"{member.name}.{action.__name__}{how}: {outcome!r}, at {member.due}")

    async def produce(self) -> None:
        """Produces some more records."""
        for place in self.model.ends:
            count = self.random.randint(0, 20)
            for _ in range(count):
                await self.producer.send(place.topic, b"v", partition=place.partition)
            self.model.ends[place] += count
        await self.producer.flush()

    async def _join(self) -> None:
        if len(self.members) < MEMBERS:
            self.join()

    def join(self) -> Member:
        """Adds a member to the group."""
        self._names += 1
        self.members.append(Member(self, f"member {self._names}"))
        self.note(f"{self.members[-1].name} joins")
        return self.members[-1]

    async def check(self) -> None:
        """Checks the committed offsets, also after automatic commits that are due now."""
        for member in self.members:
            if member.commits_by_itself and member.consumer._core.commits.are_taken():
                await member.consumer._core.commits.commit_settled(COMMIT_S)
        for place, row in (await self.admin.list_consumer_group_offsets(self.group, check=False)).items():
            undone = self.model.undone_before(place, row.offset)
            assert not undone, f"{row.offset} of {place} is committed, {sorted(undone)} are not done"

    async def _finish(self) -> None:
        """All members leave. A last one reads the remaining records."""
        with self.calm():
            while self.members:
                await self.members.pop().close()
            await self.check()
            last = self.join()
            async with asyncio.timeout(PATIENCE_S):
                while {tp: row.offset for tp, row in last.consumer.positions().items()} != self.model.ends:
                    await last.poll()
            self.members.remove(last)
            await last.commit()
            await last.close()
            await self.check()
            for place, end in self.model.ends.items():
                assert not self.model.undone_before(place, end), f"{place}: not every record was given"
            offsets = await self.admin.list_consumer_group_offsets(self.group)
            assert {place: row.offset for place, row in offsets.items() if row.offset} == {
                place: end for place, end in self.model.ends.items() if end
            }

