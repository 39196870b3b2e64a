"""The state of a producer's transaction, against a scripted coordinator."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace

import pytest

from cy.produce.partition_queue import TopicQueues
from pyclient.consumer.types import GroupMetadata
from pyclient.core.reports.rights import PRODUCING, Rights
from pyclient.errors import KafkaError, RequestTimedOut
from pyclient.producer.coordinator import Coordinator
from pyclient.producer.errors import TransactionError
from pyclient.producer.in_flight import Identity, Lane
from pyclient.producer.transactions import State, Transactions
from pyclient.protocol import AddPartitionsToTxn, EndTxn
from pyclient.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnknownServerError,
)
from pyclient.topic_partition import TopicPartition


class Scripted(Coordinator):
    """Answers InitProducerId with the next epoch, and never answers a commit. ``committed``: whether the commit
    happens.
    """

    committed = False

    async def init(self, known):
        return Identity(7, known.epoch + 1)

    async def end(self, identity, commit):
        if commit:
            raise RequestTimedOut
        if self.committed:
            raise InvalidTxnState


async def make(kind=Transactions, touched=True, **state):
    """Returns transactions, one of them open; if ``touched``, the coordinator may know it."""
    settings = SimpleNamespace(transactional_id="t", max_block=60.0, transaction_timeout_ms=5000)
    transactions = kind(SimpleNamespace(loop=asyncio.get_running_loop(), clock=lambda: 0.0), settings)
    transactions.coordinator = Scripted(transactions.client, settings)
    await transactions.init()
    vars(transactions.coordinator).update(state)
    transactions.begin()
    transactions._touched = transactions._touched or touched
    return transactions


async def nothing():
    """Does nothing: there is no batch to send or to await."""


@pytest.mark.parametrize("is_version_1", [True, False])
def test_abort_after_a_commit_of_unknown_outcome_raises_the_epoch_of_version_1(is_version_1):
    """Otherwise a delayed EndTxn would commit a part of the next transaction (case 38)."""

    async def work():
        transactions = await make(is_version_1=is_version_1)
        with pytest.raises(RequestTimedOut):
            await transactions.commit(nothing)
        assert transactions.can_abort
        await transactions.abort(nothing)
        assert transactions.state is State.READY
        return transactions.current.epoch

    assert asyncio.run(work()) == (1 if is_version_1 else 0)


@pytest.mark.parametrize("is_version_1", [True, False])
def test_abort_after_a_commit_that_has_happened_makes_the_producer_ready_under_a_new_epoch(is_version_1):
    async def work():
        transactions = await make(is_version_1=is_version_1, committed=True)
        with pytest.raises(RequestTimedOut):
            await transactions.commit(nothing)
        transactions.is_left = True
        await transactions.abort(nothing)
        assert transactions.state is State.READY
        assert not transactions.is_left
        return transactions.current.epoch

    assert asyncio.run(work()) == 1


@pytest.mark.parametrize("is_version_1", [True, False])
def test_an_abort_after_a_lost_answer_only_asks_for_the_new_epoch(is_version_1):
    """The coordinator may have raised the epoch, and its answer may be lost. A second EndTxn would then have an old
    epoch, and be fenced.
    """

    async def work():
        transactions = await make(is_version_1=is_version_1, committed=True)
        with pytest.raises(RequestTimedOut):
            await transactions.commit(nothing)
        coordinator, init, asked = transactions.coordinator, transactions.coordinator.init, []

        async def unanswered(known):
            asked.append(await init(known))
            raise RequestTimedOut

        coordinator.init = unanswered
        with pytest.raises(RequestTimedOut):
            await transactions.abort(nothing)
        coordinator.init, coordinator.end = init, None
        await transactions.abort(nothing)
        assert (transactions.state, transactions.current) == (State.READY, asked[0])

    asyncio.run(work())


def test_abort_of_a_transaction_that_the_coordinator_does_not_know_is_an_error():
    async def work():
        transactions = await make(committed=True)
        with pytest.raises(InvalidTxnState):
            await transactions.abort(nothing)

    asyncio.run(work())


def test_abort_of_an_empty_transaction_v1_gives_the_producer_a_new_epoch():
    """AddPartitionsToTxn was lost or is late. Under the old epoch it would open a transaction that no producer ends."""

    async def work():
        transactions = await make(committed=True, is_version_1=True)
        await transactions.abort(nothing)
        assert transactions.state is State.READY
        return transactions.current.epoch

    assert asyncio.run(work()) == 1


def test_records_sent_as_soon_as_the_transaction_is_open_are_committed():
    """Another thread may send before ``begin`` has returned. Otherwise the coordinator would not be asked to commit."""

    class Watched(Transactions):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if value is State.OPEN:
                assert self.admits(lane_of("t"), None)

    async def work():
        transactions = await make(Watched, touched=False)
        with pytest.raises(RequestTimedOut):
            await transactions.commit(nothing)

    asyncio.run(work())


def lane_of(topic):
    queues = TopicQueues(topic)
    queues.resize(1)
    return Lane(queues.queues[0])


def test_no_partition_is_added_after_an_abort():
    """Otherwise the partition would join a transaction that the producer does not know."""

    async def work():
        transactions = await make(is_version_1=True)
        asked = []

        async def add(identity, places):
            while True:
                asked.append((transactions.state, list(places)))
                await asyncio.sleep(0)

        transactions.coordinator.add = add
        asking, late = lane_of("t"), lane_of("u")
        assert not transactions.admits(asking, None)
        while not asked:
            await asyncio.sleep(0)
        assert not transactions.admits(late, None)
        await transactions.abort(nothing)
        before = len(asked)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(asked) == before
        assert not asking.added
        transactions.begin()
        assert not transactions.admits(asking, None)
        while len(asked) == before:
            await asyncio.sleep(0)
        assert asked[-1] == (State.OPEN, [("t", 0)])
        await transactions.abort(nothing)

    asyncio.run(work())


def test_a_denied_transactional_id_works_once_it_is_granted():
    async def work():
        settings = SimpleNamespace(transactional_id="t", max_block=60.0)
        transactions = Transactions(SimpleNamespace(loop=asyncio.get_running_loop()), settings)
        transactions.coordinator = Denied(transactions.client, settings)
        with pytest.raises(TransactionalIdAuthorizationFailed):
            await transactions.init()
        transactions.coordinator = Scripted(transactions.client, settings)
        await transactions.init()
        assert transactions.state is State.READY

    asyncio.run(work())


class Denied(Scripted):
    """A coordinator that denies the transactional id."""

    async def init(self, known):
        raise TransactionalIdAuthorizationFailed


class Answering:
    """A client whose brokers give one answer."""

    rights = Rights(None, PRODUCING)

    def __init__(self, response):
        self.response = response

    def clock(self):
        return 0.0

    async def retrying(self, attempt, *, deadline):
        return await attempt()

    async def coordinator(self, name, kind):
        return 1

    async def send(self, node, api, request, *, max_version=None):
        return self.response


def added(*codes):
    topic = AddPartitionsToTxn.Response.AddPartitionsToTxnTopicResult
    row = AddPartitionsToTxn.Response.AddPartitionsToTxnPartitionResult
    rows = [row(partition_index=number, partition_error_code=code) for number, code in enumerate(codes)]
    return AddPartitionsToTxn.Response(
        results_by_topic_v3_and_below=[topic(name="t", results_by_partition=rows)] if rows else []
    )


@pytest.mark.parametrize(
    ("codes", "error"),
    [((0, 0), None), ((55, 51), ConcurrentTransactions), ((), UnknownServerError)],
)
def test_errors_of_added_partitions_are_retried_or_raised(codes, error):
    settings = SimpleNamespace(transactional_id="t", max_block=60.0)
    work = Coordinator(Answering(added(*codes)), settings).add(Identity(7, 0), [("t", 0), ("t", 1)])
    if error is None:
        asyncio.run(work)
    else:
        with pytest.raises(error):
            asyncio.run(work)


class OnceRefused:
    """A client whose coordinator refuses EndTxn once. It counts the lookups of the coordinator."""

    rights = Rights(None, PRODUCING)

    def __init__(self, error):
        self.codes = [error.code, 0]
        self.lost = 0

    def clock(self):
        return 0.0

    async def retrying(self, attempt, *, deadline):
        try:
            return await attempt()
        except KafkaError:
            return await attempt()

    async def coordinator(self, key, kind):
        return 1

    def coordinator_lost(self, key, kind):
        self.lost += 1

    async def send(self, node, api, request, *, max_version=None):
        return EndTxn.Response(error_code=self.codes.pop(0))


@pytest.mark.parametrize(
    ("error", "lookups"), [(NotCoordinator, 1), (CoordinatorNotAvailable, 1), (CoordinatorLoadInProgress, 0)]
)
def test_a_coordinator_is_looked_up_again_after_a_move_but_not_while_it_loads(error, lookups):
    client = OnceRefused(error)
    coordinator = Coordinator(client, SimpleNamespace(transactional_id="t", max_block=60.0))
    asyncio.run(coordinator.end(Identity(7, 0), True))
    assert client.lost == lookups


@pytest.mark.parametrize(
    "group",
    ["g", GroupMetadata("g", 3, "m"), SimpleNamespace(group_metadata=lambda: GroupMetadata("g", 3, "m"))],
    ids=["name", "metadata", "consumer"],
)
def test_offsets_are_sent_for_a_consumer_group_metadata_or_a_group_id(group):
    sent = []

    async def keep(identity, offsets, member):
        sent.append(member.group_id)

    async def work():
        transactions = await make(send_offsets=keep)
        await transactions.send_offsets({TopicPartition("t", 0): 1}, group)

    asyncio.run(work())
    assert sent == ["g"]


@pytest.mark.parametrize(
    ("offsets", "group", "told"),
    [
        ({TopicPartition("t", 0): 1}, None, "what consumer.group_metadata() returns, a consumer, or the name of"),
        ({TopicPartition("t", 0): 1}, b"g", "not bytes"),
        ([TopicPartition("t", 0)], "g", "a mapping of TopicPartition to the next offset, such as consumer.positions()"),
        ({"t": 1}, "g", "'t' is not a TopicPartition"),
        ({TopicPartition("t", 0): "1"}, "g", "offset '1' of t-0 is not an int"),
    ],
)
def test_wrong_group_or_offset_types_are_refused_and_the_expected_ones_named(offsets, group, told):
    async def work():
        transactions = await make()
        with pytest.raises(TypeError, match=re.escape(told)):
            await transactions.send_offsets(offsets, group)
        assert transactions.state is State.OPEN

    asyncio.run(work())


@pytest.mark.parametrize("error", [InvalidProducerEpoch, ProducerFenced, InvalidTxnState])
@pytest.mark.parametrize("open_s", [4.0, 6.0])
def test_the_error_of_a_commit_names_the_transaction_timeout(error, open_s):
    async def refuse(identity, commit):
        raise error

    async def work():
        transactions = await make(end=refuse)
        transactions.client.clock = lambda: open_s
        with pytest.raises(error) as told:
            await transactions.commit(nothing)
        assert ("open for 6000 ms, longer than transaction.timeout.ms=5000" in str(told.value)) == (open_s > 5)
        is_fenced = open_s < 5 and error is not InvalidTxnState
        told_fenced = "a newer producer or an administrator has fenced this one, of transactional id 't'"
        assert str(told.value).startswith(told_fenced) == is_fenced
        assert str(transactions.error) == str(told.value)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("open_s", "why"),
    [(6.0, r"longer than transaction\.timeout\.ms=5000"), (0.0, "a newer producer .* has fenced .* 't'")],
)
def test_the_error_of_a_commit_names_the_refused_batch(open_s, why):
    async def work():
        transactions = await make()
        transactions.client.clock = lambda: open_s
        transactions.give_up = lambda error: None
        transactions.batch_failed(SimpleNamespace(attempts=1, has_sequence=True), InvalidProducerEpoch())
        with pytest.raises(TransactionError, match=rf"can only be aborted: .*{why}"):
            await transactions.commit(nothing)

    asyncio.run(work())
