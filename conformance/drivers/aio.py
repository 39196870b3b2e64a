"""aiokafka behind the common interface: an event loop in a thread of its own, to which each call is handed.

aiokafka supports transactions v1 only, and ``send_offsets_to_transaction`` without the member's generation. So the
group does not fence a worker that lost its partitions (KIP-447); only the transactional id does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition, errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from conformance.drivers import reaching
from conformance.drivers.base import (
    PATIENCE_S,
    Client,
    ClientError,
    CommitRefused,
    Consumer,
    Driver,
    Event,
    Fenced,
    MustAbort,
    Place,
    Producer,
    Record,
    Sent,
    Unanswered,
)

Answer = TypeVar("Answer")
STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
PRODUCER = {"enable_idempotence": True, "acks": "all", "linger_ms": 1, "retry_backoff_ms": 20}
PRODUCER |= {"request_timeout_ms": 60_000}
CONSUMER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "retry_backoff_ms": 20,
    "fetch_max_wait_ms": 50,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 60_000,
    "request_timeout_ms": 60_000,
}
UNKNOWN = {"group_protocol", "group_remote_assignor", "retries", "delivery_timeout_ms", "max_poll_records"}
KINDS: tuple[tuple[tuple[type[Exception], ...], type[ClientError]], ...] = (
    ((errors.ProducerFenced, errors.InvalidProducerEpoch), Fenced),
    ((errors.CommitFailedError, errors.IllegalGenerationError, errors.UnknownMemberIdError), CommitRefused),
    ((errors.RebalanceInProgressError,), CommitRefused),
    ((TimeoutError, errors.KafkaTimeoutError, errors.RequestTimedOutError), Unanswered),
    ((errors.KafkaConnectionError, errors.NodeNotReadyError, errors.GroupCoordinatorNotAvailableError), Unanswered),
)


def translated(error: BaseException) -> ClientError:
    """Translates aiokafka's error into the common one."""
    for kinds, common in KINDS:
        if isinstance(error, kinds):
            return common(repr(error))
    cause = "" if error.__cause__ is None else f" from {error.__cause__!r}"
    return ClientError(f"{error!r}{cause}")


class AiokafkaDriver(Driver):
    name = "aiokafka"

    def __init__(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        # A fenced producer leaves futures that are never awaited. The garbage collector would print each of them, at a
        # moment when Python 3.11 may be parsing, and the traceback parses too.
        self._loop.set_exception_handler(lambda *_: None)
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer], timeout_s: float = PATIENCE_S) -> Answer:
        """Runs a coroutine on the loop and waits; raises the common errors."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), self._loop)
        try:
            return future.result()
        except ClientError:
            raise
        except Exception as error:
            raise translated(error) from error

    def producer(self, bootstrap: str, **settings: object) -> AiokafkaProducer:
        values = {key: value for key, value in settings.items() if key not in UNKNOWN}
        if values.get("enable_idempotence") is False:
            values.setdefault("acks", 1)
        return AiokafkaProducer(self, {**PRODUCER, **reaching.aiokafka(bootstrap), **values})

    def consumer(self, bootstrap: str, **settings: object) -> AiokafkaConsumer:
        values = {key: value for key, value in settings.items() if key not in UNKNOWN}
        if "partition_assignment_strategy" in values:
            values["partition_assignment_strategy"] = (STRATEGIES[str(values["partition_assignment_strategy"])],)
        return AiokafkaConsumer(self, {**CONSUMER, **reaching.aiokafka(bootstrap), **values})

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class AiokafkaClient(Client):
    """The shared part of producer and consumer: the first call creates and starts the client on the driver's loop."""

    kind: Any

    def __init__(self, driver: AiokafkaDriver, settings: dict[str, Any]) -> None:
        self._driver = driver
        self._settings = settings
        self._client: Any = None

    async def _started(self) -> Any:
        """Starts the client, retries while no broker answers, and returns it."""
        while self._client is None:
            client = self.kind(**self._settings)
            try:
                await client.start()
                self._client = client
            except errors.KafkaConnectionError:
                await client.stop()
                await asyncio.sleep(0.05)
            except BaseException:
                with contextlib.suppress(Exception):
                    await client.stop()
                raise
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(ClientError):
                self._driver.run(client.stop(), 10)


class AiokafkaProducer(AiokafkaClient, Producer):
    kind = AIOKafkaProducer

    def __init__(self, driver: AiokafkaDriver, settings: dict[str, Any]) -> None:
        super().__init__(driver, settings)
        self._futures: list[asyncio.Future[Any]] = []

    def init_transactions(self) -> None:
        self._driver.run(self._started())

    def begin(self) -> None:
        self._futures.clear()
        self._driver.run(self._watched("begin_transaction"))

    async def _watched(self, name: str, *arguments: Any) -> Any:
        """Makes a call that also ends when aiokafka's sender dies, because then no answer would come."""
        client = await self._started()
        sender = client._sender.sender_task
        if sender.done():
            raise sender.exception() or ClientError("aiokafka's sender has ended")
        call = asyncio.ensure_future(getattr(client, name)(*arguments))
        await asyncio.wait({call, sender}, return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            call.cancel()
            raise sender.exception() or ClientError("aiokafka's sender has ended")
        try:
            return call.result()
        except errors.IllegalOperation as error:
            # The sender gave the transaction up meanwhile; if it has ended, it knows why.
            if sender.done():
                raise (sender.exception() or error) from error
            raise MustAbort(repr(error)) from error
        except errors.KafkaError as error:
            if isinstance(error, FATAL) or name not in ABORTABLE:
                raise
            raise MustAbort(repr(error)) from error

    def send(self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None) -> None:
        self._futures.append(self._driver.run(self._watched("send", topic, value, key, partition)))

    def flush(self) -> list[Sent]:
        return self._driver.run(self._flush())

    async def _flush(self) -> list[Sent]:
        futures, self._futures = self._futures, []
        client = await self._started()
        sender = client._sender.sender_task
        both = asyncio.gather(*futures)
        await asyncio.wait({both, sender}, return_when=asyncio.FIRST_COMPLETED)
        if not both.done():
            both.cancel()
            raise sender.exception() or ClientError("aiokafka's sender has ended")
        return [Sent(Place(row.topic, row.partition), row.offset) for row in both.result()]

    def send_offsets(self, consumer: Consumer, offsets: Mapping[Place, int]) -> None:
        assert isinstance(consumer, AiokafkaConsumer)
        rows = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._driver.run(self._watched("send_offsets_to_transaction", rows, consumer.group))

    def commit(self) -> None:
        """Commits. aiokafka's own commit ignores lost records: the application has to check them."""
        self._driver.run(self._watched("flush"))
        refused = [future.exception() for future in self._futures if future.done() and not future.cancelled()]
        for error in filter(None, refused):
            raise error if isinstance(error, FATAL) else MustAbort(repr(error)) from error
        self._driver.run(self._watched("commit_transaction"))

    def abort(self) -> None:
        self._driver.run(self._watched("abort_transaction"))


FATAL = (errors.ProducerFenced, errors.InvalidProducerEpoch)
#: After these calls fail, the transaction can still be aborted.
ABORTABLE = ("send", "send_offsets_to_transaction", "commit_transaction")


class AiokafkaConsumer(AiokafkaClient, Consumer):
    kind = AIOKafkaConsumer

    def __init__(self, driver: AiokafkaDriver, settings: dict[str, Any]) -> None:
        super().__init__(driver, settings)
        self.events = []
        self.group = str(settings.get("group_id"))

    def subscribe(self, topics: Sequence[str]) -> None:
        self._driver.run(self._subscribe(topics=list(topics)))

    def subscribe_pattern(self, pattern: str) -> None:
        self._driver.run(self._subscribe(pattern=f"^{pattern}$"))

    async def _subscribe(self, **what: Any) -> None:
        client = await self._started()
        client.subscribe(**what, listener=Listener(self.events))

    def assign(self, offsets: Mapping[Place, int]) -> None:
        self._driver.run(self._assign(offsets))

    async def _assign(self, offsets: Mapping[Place, int]) -> None:
        client = await self._started()
        client.assign([TopicPartition(*place) for place in offsets])
        for place, offset in offsets.items():
            if offset >= 0:
                client.seek(TopicPartition(*place), offset)
            else:
                await client.seek_to_beginning(TopicPartition(*place))

    def poll(self, timeout_s: float = 0.2, limit: int = 500) -> list[Record]:
        return self._driver.run(self._poll(timeout_s, limit))

    async def _poll(self, timeout_s: float, limit: int) -> list[Record]:
        client = await self._started()
        found = await client.getmany(timeout_ms=int(timeout_s * 1000), max_records=limit)
        return [
            Record(Place(row.topic, row.partition), row.offset, row.key, row.value)
            for rows in found.values()
            for row in rows
        ]

    def assignment(self) -> set[Place]:
        return {Place(row.topic, row.partition) for row in self._driver.run(self._ask("assignment"))}

    async def _ask(self, name: str, *arguments: Any) -> Any:
        answer = getattr(await self._started(), name)(*arguments)
        return await answer if asyncio.iscoroutine(answer) else answer

    def seek(self, place: Place, offset: int) -> None:
        self._driver.run(self._ask("seek", TopicPartition(*place), offset))

    def position(self, place: Place) -> int:
        return int(self._driver.run(self._ask("position", TopicPartition(*place))))

    def commit(self, offsets: Mapping[Place, int] | None = None, *, asynchronous: bool = False) -> None:
        rows = None if offsets is None else {TopicPartition(*place): offset for place, offset in offsets.items()}
        if not asynchronous:
            self._driver.run(self._commit(rows))
            return
        asyncio.run_coroutine_threadsafe(self._commit(rows), self._driver._loop)

    async def _commit(self, rows: dict[TopicPartition, int] | None) -> None:
        try:
            await self._ask("commit", rows)
        except errors.IllegalStateError as error:  # The consumer knows already that its group evicted it.
            raise CommitRefused(repr(error)) from error

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        found = {place: self._driver.run(self._ask("committed", TopicPartition(*place))) for place in places}
        return {place: -1 if offset is None else int(offset) for place, offset in found.items()}

    def wakeup(self) -> None:
        raise NotImplementedError("aiokafka has no wakeup")


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Records the calls that it gets."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._note("assigned", assigned)

    def _note(self, kind: str, rows: set[TopicPartition]) -> None:
        self._events.append(Event(kind, frozenset(Place(row.topic, row.partition) for row in rows)))
