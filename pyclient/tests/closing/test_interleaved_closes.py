"""A thread that closes a client while others call it, in many orders: each call ends, with its result or with
ClientClosed, and the close is complete.
"""

from __future__ import annotations

import gc

import pytest

from proofs.interleaving import Seeded
from pyclient import Admin, Consumer, Producer, TopicPartition
from pyclient.core.tests.scripted import SILENCE
from pyclient.errors import ClientClosed, WakeupError
from pyclient.protocol import (
    Fetch,
    FindCoordinator,
    InitProducerId,
    ListOffsets,
    OffsetCommit,
    OffsetFetch,
    Produce,
)
from pyclient.tests.closing.interleaved import Broker, World

CALLS = 3
"""The number of calls of each thread. Calls after the close must fail."""
PLACE = TopicPartition("t", 0)


def produced(request, version):
    kind = Produce.Response
    row = kind.PartitionProduceResponse
    return kind(
        responses=[
            kind.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[row(index=each.index, base_offset=0) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def listed(request, version):
    kind = ListOffsets.Response
    row = kind.ListOffsetsPartitionResponse
    return kind(
        topics=[
            kind.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[row(partition_index=each.partition_index, offset=0) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def committed(request, version):
    kind = OffsetCommit.Response
    row = kind.OffsetCommitResponsePartition
    return kind(
        topics=[
            kind.OffsetCommitResponseTopic(
                name=topic.name, partitions=[row(partition_index=each.partition_index) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def fetched(request, version):
    kind = OffsetFetch.Response
    row = kind.OffsetFetchResponsePartitions
    groups = [
        kind.OffsetFetchResponseGroup(
            group_id=group.group_id,
            topics=[
                kind.OffsetFetchResponseTopics(
                    name=topic.name,
                    partitions=[row(partition_index=number, committed_offset=-1) for number in topic.partition_indexes],
                )
                for topic in group.topics
            ],
        )
        for group in request.groups
    ]
    return kind(groups=groups)


@pytest.fixture
def broker():
    made = Broker()

    def coordinator(request, version):
        row = FindCoordinator.Response.Coordinator
        found = [row(key=key, node_id=1, host="127.0.0.1", port=made.port) for key in request.coordinator_keys]
        return FindCoordinator.Response(coordinators=found)

    made.handlers |= {
        Produce: produced,
        ListOffsets: listed,
        OffsetCommit: committed,
        OffsetFetch: fetched,
        FindCoordinator: coordinator,
        InitProducerId: lambda *_: InitProducerId.Response(producer_id=7, producer_epoch=0),
        Fetch: lambda *_: SILENCE,
    }
    return made


def calls_of_admin(world, admin):
    return [[admin.list_topics, lambda: admin.describe_topics("t")]] * 3


def calls_of_producer(world, producer):
    def send():
        report = producer.send("t", b"v")
        world.wait(lambda: report.done)
        report.result(0)

    def send_and_flush():
        producer.send("t", b"v")
        producer.flush()

    return [[send, send_and_flush], [lambda: producer.partitions_for("t"), send], [send_and_flush]]


def calls_of_consumer(world, consumer):
    """Returns the calls of two threads: one uses the consumer, and the other one wakes it."""
    calls = [
        lambda: consumer.poll(timeout=0),
        lambda: consumer.commit({PLACE: 0}),
        lambda: consumer.end_offsets([PLACE]),
        consumer.poll,
    ]
    return [calls, [consumer.wakeup]]


KINDS = {
    "admin": (Admin, {}, calls_of_admin),
    "producer": (Producer, {}, calls_of_producer),
    "consumer": (Consumer, {"group_id": "g", "enable_auto_commit": False}, calls_of_consumer),
}


def scenario(kind, schedule, broker, monkeypatch, closers=2):
    """Runs a scenario. Raises unexpected errors of its calls, and Stuck if a call does not end."""
    make, settings, calls_of = KINDS[kind]
    with monkeypatch.context() as patch:
        world = World(schedule, patch)

        def main():
            client = make(f"127.0.0.1:{broker.port}", **settings)
            client._runner.run(broker.serve())
            if kind == "consumer":
                client.assign([PLACE])
            for number, calls in enumerate(calls_of(world, client)):
                world.start(f"calls-{number}", lambda calls=calls: call(calls))
            for number in range(closers):
                world.start(f"closes-{number}", client.close)
            world.clients.append(client)

        world.clients = []
        world.start("main", main)
        with world.run:
            pass
        client = world.clients.pop()
        assert client._runner._is_over
        assert client._runner.loop.is_closed()
        del client
        gc.collect()
        assert not world.told


def call(calls):
    for number in range(CALLS):
        for each in calls:
            try:
                each()
            except (ClientClosed, WakeupError):
                assert number < CALLS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_each_call_ends_when_another_thread_closes(broker, monkeypatch, kind, seed):
    scenario(kind, Seeded(seed), broker, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.nightly
def test_each_call_ends_in_a_hundred_interleavings_with_close(kind, monkeypatch):
    for seed in range(10, 110):
        scenario(kind, Seeded(seed), broker.__wrapped__(), monkeypatch)
