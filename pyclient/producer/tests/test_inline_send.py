"""When a thread that waits for a batch sends that batch itself."""

from __future__ import annotations

import pytest

from pyclient.producer.tests.scripted import answer, make


def batch_in(queues, partition):
    return queues.topic("t").queues[partition].first()


def test_a_single_batch_is_sent_inline_and_its_connection_returned():
    client, queues, sender = make()
    report = queues.send("t", b"v", partition=0)
    assert sender.inline_send(batch_in(queues, 0)) == "connection to 0"
    assert not sender.is_idle
    answer(client, offset=7)
    assert report.result(0).offset == 7
    assert sender.is_idle


def watched(queues):
    queues.send("t", b"v", partition=0, on_delivery=print)


def not_alone(queues):
    queues.send("t", b"v", partition=0)
    queues.send("t", b"v", partition=2)


def unconnected(queues):
    queues.send("t", b"v", partition=1)


@pytest.mark.parametrize(("send", "partition"), [(watched, 0), (not_alone, 0), (unconnected, 1)])
def test_a_batch_that_cannot_be_sent_inline_is_left_to_the_sender(send, partition):
    client, queues, sender = make()
    send(queues)
    assert sender.inline_send(batch_in(queues, partition)) is None
    assert client.posts == []
    sender.run()
    assert len(client.posts) == 1


def test_a_batch_that_waits_for_its_linger_is_not_sent_at_once():
    client, queues, sender = make(linger_ms=5)
    queues.send("t", b"v", partition=0)
    assert sender.inline_send(batch_in(queues, 0)) is None
    assert client.posts == []
