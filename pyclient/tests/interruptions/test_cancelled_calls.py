"""Cancels every public coroutine of ``pyclient.aio`` at each of its steps. The client still works, and no task is left.

The coroutines are taken from the classes, their arguments from the names of their parameters. So a new one is covered,
or the test says which parameter it does not know.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from contextlib import suppress

import pytest

from pyclient import Producer, TopicPartition, aio
from pyclient.admin import (
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclResourceType,
    AlterConfigOp,
    ClientQuotaEntity,
    ConfigResource,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from pyclient.errors import KafkaError
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.tests.brokers import unique
from pyclient.tests.interruptions.steps import at_each_step, run
from pyclient.tests.support import PATIENCE_S, read_all

COUNT = 1_000
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10}
TRANSACTIONS = {
    *("init_transactions", "begin_transaction", "commit_transaction", "abort_transaction", "prepare_transaction"),
    *("send_offsets", "end_transaction"),
}
"""The methods of a producer that has a transactional.id."""
WITHIN = TRANSACTIONS - {"init_transactions", "begin_transaction", "end_transaction"}
"""The methods that are called inside a transaction."""
INTERNAL = {"send_later"}


def coroutines(kind):
    """Returns the names of the class's public coroutines."""
    names = [name for name in dir(kind) if not name.startswith("_") and name not in INTERNAL]
    found = [name for name in names if inspect.iscoroutinefunction(getattr(kind, name))]
    return sorted({*found, "send"} if kind is aio.Producer else found)


class Arguments:
    """Values for parameters, by their names. Each call gets new ones where that matters."""

    def __init__(self, topic, group):
        place = TopicPartition(topic, 0)
        resource = ConfigResource(ResourceType.TOPIC, topic)
        self.fixed = {
            "levels": {},
            "acls": [AclBinding.allow("User:nobody", AclOperation.READ, AclResourceType.TOPIC, topic)],
            "filters": [AclBindingFilter(entry=AccessControlEntryFilter("User:nobody"))],
            "quotas": {ClientQuotaEntity("nobody"): {"producer_byte_rate": None}},
            "hmac": b"nobody's",
            "alterations": [UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256)],
            "broker": 1,
            "paths": {place: "/nowhere"},
            "replicas": {place: None},
            "resources": resource,
            "changes": {resource: [AlterConfigOp("retention.ms", "-1")]},
            "groups": [group],
            "group": group,
            "offsets": {place: 1},
            "times": {place: 0},
            "partitions": [place],
            "counts": {topic: 1},
            "before": {place: 0},
            "specs": {place: "latest"},
            "partition": place,
            "producer_id": 1 << 40,
            "producer_epoch": 0,
            "epoch": 0,
            "commit": False,
            "start": 2,
            "end": 5,
            "topic": topic,
            "values": [b"many"],
        }

    def of(self, name, method):
        """Returns the arguments of a call, by position and by name. Raises KeyError for an unknown parameter."""
        fresh = {
            "topics": [unique("cancelled")] if name in ("create_topics", "delete_topics") else [self.fixed["topic"]],
            "ids": [unique("cancelled")],
            "transactional_id": unique("cancelled"),
            "prepared": [PreparedTransaction(unique("cancelled"), 1 << 40, 0)],
        }
        known = {**self.fixed, **fresh}
        wanted = [
            each
            for each in inspect.signature(method).parameters.values()
            if each.default is inspect.Parameter.empty and each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        positional = [known[each.name] for each in wanted if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        named = {each.name: known[each.name] for each in wanted if each.kind is inspect.Parameter.KEYWORD_ONLY}
        return positional, named


@pytest.fixture
def arguments(topic, group):
    return Arguments(topic, group)


# -- Admin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", coroutines(aio.Admin))
def test_an_admin_call_can_be_cancelled_at_any_step(broker, topic, arguments, name):
    """This includes the steps of connecting, because each round has a new client."""
    used = []

    async def call():
        admin = aio.Admin(broker.bootstrap, **QUICK)
        used.append(admin)
        method = getattr(admin, name)
        positional, named = arguments.of(name, method)
        await method(*positional, **named)

    async def after():
        admin = used.pop()
        if name != "close":
            assert topic in await admin.describe_topics(topic, timeout=PATIENCE_S)
        await admin.close()

    async def work():
        assert await at_each_step(call, after) >= (name != "close")

    run(work)


# -- Producer ----------------------------------------------------------------------------------------------


@pytest.fixture
def numbers():
    return itertools.count()


@pytest.mark.parametrize("name", sorted({*coroutines(aio.Producer)} - TRANSACTIONS))
def test_a_send_can_be_cancelled_at_any_step(broker, topic, arguments, numbers, name):
    """Accepted records are delivered once, in order. Cancelled ones are delivered whole or not at all."""
    used, accepted = [], []

    async def send(producer):
        number = next(numbers)
        report = await producer.send(topic, b"%d" % number)
        accepted.append(number)
        return report

    async def call():
        producer = aio.Producer(broker.bootstrap, linger_ms=1, **QUICK)
        used.append(producer)
        if name == "send":
            await (await send(producer))
        elif name == "send_and_wait":
            number = next(numbers)
            await producer.send_and_wait(topic, b"%d" % number)
            accepted.append(number)
        elif name == "send_many":
            some = [next(numbers), next(numbers)]
            await (await producer.send_many(topic, [b"%d" % number for number in some]))
            accepted.extend(some)
        else:
            if name in ("flush", "close"):
                await send(producer)
            method = getattr(producer, name)
            positional, named = arguments.of(name, method)
            await method(*positional, **named)

    async def after():
        producer = used.pop()
        if name == "close":
            await producer.close()
            return
        await (await send(producer))
        await producer.close()

    async def work():
        assert await at_each_step(call, after)

    run(work)
    found = [int(record.value) for record in read_all(broker.bootstrap, topic)]
    assert found == sorted(set(found)), "doubled, or out of order"
    if name != "close":  # which may be cancelled before they are sent
        assert set(accepted) <= set(found)


@pytest.mark.parametrize("name", [*sorted(TRANSACTIONS), "transaction"])
def test_a_transaction_can_be_cancelled_at_any_step(broker, topic, arguments, numbers, group, name):
    """A committed transaction is there once. A cancelled one is there completely or not at all, and the next
    transaction succeeds.
    """
    used, committed = [], []

    async def call():
        producer = aio.Producer(broker.bootstrap, transactional_id=group, **QUICK)
        used.append(producer)
        if name == "transaction":
            number = next(numbers)
            async with producer.transaction():
                await producer.send(topic, b"%d" % number)
            committed.append(number)
            return
        if name in WITHIN:
            await producer.begin_transaction()
            await producer.send(topic, b"%d" % next(numbers))
        method = getattr(producer, name)
        positional, named = arguments.of(name, method)
        await method(*positional, **named)

    async def after():
        producer = used.pop()
        with suppress(KafkaError):
            await producer.abort_transaction()
        number = next(numbers)
        try:
            async with producer.transaction():
                await producer.send(topic, b"%d" % number)
            committed.append(number)
        except KafkaError:
            assert name == "prepare_transaction", "no other leaves a transaction to somebody else"
        await producer.close()

    async def work():
        assert await at_each_step(call, after)
        async with aio.Producer(broker.bootstrap, transactional_id=group) as producer:
            await producer.init_transactions()  # ends what is prepared

    run(work)
    found = [int(record.value) for record in read_all(broker.bootstrap, topic, isolation_level="read_committed")]
    assert found == sorted(set(found)), "doubled, or out of order"
    assert set(committed) <= set(found)


# -- Consumer ----------------------------------------------------------------------------------------------


@pytest.fixture
def filled(broker, topic):
    """Fills the topic with records, and returns it."""
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(COUNT)]).result(PATIENCE_S)
    return topic


READS = ["poll", "poll_arrow", "get", "getone", "__anext__", "__aiter__"]
CHANGES = ["subscribe", "unsubscribe", "assign", "assign_range"]
"""The methods that change what the consumer reads."""


@pytest.mark.parametrize("how", ["new", "reading"])
@pytest.mark.parametrize("name", sorted({*coroutines(aio.Consumer), *READS}))
def test_a_consumer_call_can_be_cancelled_at_any_step(broker, filled, group, arguments, name, how):
    """The consumer returns each record once, in order, and commits no record that it has not returned."""
    place = TopicPartition(filled, 0)
    used, seen = [], []
    is_new = how == "new" or name == "close"
    settings = {"group_id": group, "auto_offset_reset": "earliest", "max_poll_records": 2, "enable_auto_commit": False}
    settings["fetch_max_wait_ms"] = 10  # a consumer that seeks waits for its previous fetch

    def made():
        used.append(aio.Consumer(broker.bootstrap, **settings, **QUICK))
        return used[-1]

    async def stand(consumer):
        """Assigns the partition, and seeks to the first record that was not returned yet."""
        await consumer.unsubscribe()
        await consumer.assign([place])
        consumer.seek(place, len(seen))

    async def read(consumer):
        if name == "poll_arrow":
            seen.extend((await consumer.poll_arrow(max_rows=2))["offset"].to_pylist())
        elif name in ("get", "getone", "__anext__"):
            seen.append((await getattr(consumer, name)()).offset)
        elif name == "__aiter__":
            async for record in consumer:
                seen.append(record.offset)
                break
        else:
            seen.extend(record.offset for record in await consumer.poll())

    async def call():
        consumer = made() if is_new else used[-1]
        if name in READS:
            if is_new:
                await stand(consumer)
            await read(consumer)
            return
        if is_new and name != "subscribe":
            await consumer.assign([place])
        method = getattr(consumer, name)
        positional, named = arguments.of(name, method)
        await method(*positional, **named)

    async def after():
        consumer = used[-1]
        if name != "close":
            if (name not in READS and (is_new or name in CHANGES)) or not consumer.assignment():
                await stand(consumer)
            before = len(seen)
            while len(seen) == before:
                await asyncio.wait_for(read(consumer), PATIENCE_S)
            assert seen == list(range(len(seen)))
            committed = (await consumer.committed([place]))[place]
            assert committed is None or committed.offset <= len(seen)
        if is_new:
            await used.pop().close()

    async def work():
        if not is_new:
            await stand(made())
            await read(used[-1])
        assert await at_each_step(call, after) >= is_new
        for consumer in used:
            await consumer.close()

    run(work)
