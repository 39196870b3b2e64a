"""A scripted client with a manual clock."""

from __future__ import annotations

from types import SimpleNamespace

from cy.produce.produce_template import Cast
from cy.produce.record_queues import RecordQueues
from pyclient.config import PRODUCER, load
from pyclient.core.cluster import Cluster
from pyclient.core.reports.rights import PRODUCING, Rights
from pyclient.producer.identity import Identities
from pyclient.producer.in_flight import Identity
from pyclient.producer.sender import Sender
from pyclient.producer.settings import read
from pyclient.producer.transactions import Transactions
from pyclient.protocol import Metadata, Produce
from pyclient.protocol.frames import decode_request_header


class Loop:
    """An event loop that only collects its timers."""

    def __init__(self):
        self.timers = []

    def call_later(self, delay, function):
        timer = Timer(delay, function)
        self.timers.append(timer)
        return timer


class Timer:
    def __init__(self, delay, function):
        self.delay, self.function, self.cancelled = delay, function, False

    def cancel(self):
        self.cancelled = True


class FakeClient:
    """Two brokers; partition n of "t" is led by broker n % 2."""

    rights = Rights(None, PRODUCING)

    def __init__(self):
        self.now = 0.0
        self.loop = Loop()
        self.posts = []
        self.refreshed = []
        self.nodes = SimpleNamespace(transport={0: "connection to 0"}.get)
        self.cluster = Cluster()
        self.lead([0, 1, 0, 1], epoch=1)

    def lead(self, leaders, epoch):
        response = Metadata.Response(
            brokers=[Metadata.Response.MetadataResponseBroker(node_id=n, host="h", port=1) for n in (0, 1)],
            topics=[Metadata.Response.MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=[
                Metadata.Response.MetadataResponsePartition(
                    partition_index=number, leader_id=leader, leader_epoch=epoch)
                for number, leader in enumerate(leaders)
            ])],
        )
        self.cluster.update(response, ["t"])

    def clock(self):
        return self.now

    def refresh(self, topic=None):
        self.refreshed.append(topic)

    def post(self, node, api, message, on_done, *, timeout=None, max_version=None):
        self.posts.append((node, decoded(message) if isinstance(message, Cast) else message, on_done))


def decoded(cast):
    """Returns the request as the broker decodes it."""
    pieces = cast.encode(Produce.max_version, 0, "c")
    frame = pieces if isinstance(pieces, bytes) else b"".join(pieces)
    header = decode_request_header(frame, 4, len(frame))
    return Produce.decode_request(header.api_version, frame, header.position, len(frame))


def make(**settings):
    """Returns client, queues and sender. With a transactional id, ``sender.identities`` are transactions."""
    config = load(PRODUCER, "h:1", None, {"linger_ms": 0, **settings})
    client, chosen = FakeClient(), read(config)
    adaptive = config.partitioner_adaptive_partitioning_enable
    queues = RecordQueues(
        batch_size=config.batch_size, max_request_size=config.max_request_size, adaptive=adaptive, clock=client.clock
    )
    queues.set_partitions("t", 4)
    queues.direct = True
    identities = (Transactions if chosen.transactional_id else Identities)(client, chosen)
    identities.current = Identity(7, 0)
    sender = Sender(client, queues, chosen, identities)
    identities.give_up = sender.drop
    queues.attach(lambda: None)
    return client, queues, sender


def batches_of(message):
    """Returns the batches of a Produce request by partition."""
    return {row.index: bytes(row.records) for topic in message.topic_data for row in topic.partition_data}


def answer(client, code=0, offset=0, **fields):
    """Answers the oldest request with the same outcome for all its batches."""
    _, message, on_done = client.posts.pop(0)
    rows = [
        Produce.Response.PartitionProduceResponse(
            index=index, error_code=code, base_offset=offset, **fields)
        for index in batches_of(message)
    ]
    topic = Produce.Response.TopicProduceResponse(name="", topic_id=b"t" * 16, partition_responses=rows)
    on_done(Produce.Response(responses=[topic]), None)
    return message
