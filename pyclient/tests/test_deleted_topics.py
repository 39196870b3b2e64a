"""A deleted topic stays deleted, even if a client has used it before."""

from __future__ import annotations

import pytest

from pyclient import Consumer, Producer, TopicPartition
from pyclient.tests.brokers import unique
from pyclient.tests.support import until

OFTEN = {"metadata_max_age_ms": 200}


def delete(admin, topic):
    admin.delete_topics(topic)
    until(lambda: topic not in admin.list_topics(), "the deletion")


def ask_for_others(client, admin):
    """Waits until the client has refreshed the metadata of its topics, which shows in the growth of another topic."""
    other = unique("other")
    admin.create_topics(other, num_partitions=1, replication_factor=1)
    until(lambda: other in admin.list_topics(), "the creation")
    for count in (1, 2, 3):
        if count > 1:
            admin.create_partitions({other: count})
        until(lambda count=count: len(client.partitions_for(other)) == count, "a partition more")


def test_a_producer_that_stopped_sending_does_not_recreate_a_deleted_topic(broker, admin, topic):
    with Producer(broker.bootstrap, **OFTEN) as producer:
        producer.send(topic, b"v").result()
        delete(admin, topic)
        ask_for_others(producer, admin)
        assert topic not in admin.list_topics()


def test_a_producer_that_sends_again_recreates_a_deleted_topic(broker, admin, topic):
    with Producer(broker.bootstrap, **OFTEN) as producer:
        producer.send(topic, b"v").result()
        delete(admin, topic)
        ask_for_others(producer, admin)
        producer.send(topic, b"v").result()
        assert topic in admin.list_topics()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_does_not_recreate_a_topic_that_it_unsubscribed_from(
    broker, admin, new_topic, group, protocol
):
    first, second = new_topic(), new_topic()
    with Consumer(broker.bootstrap, group_id=group, group_protocol=protocol, **OFTEN) as consumer:
        consumer.subscribe([first])
        until(lambda: consumer.poll(timeout=0.1) or consumer.assignment(), "an assignment")
        consumer.subscribe([second])
        until(lambda: consumer.poll(timeout=0.1) or consumer.assignment() == {TopicPartition(second, 0)})
        delete(admin, first)
        ask_for_others(consumer, admin)
        assert first not in admin.list_topics()


def test_a_consumer_does_not_recreate_a_topic_whose_end_it_once_asked_for(broker, admin, topic):
    with Consumer(broker.bootstrap, **OFTEN) as consumer:
        consumer.end_offsets([TopicPartition(topic, 0)])
        delete(admin, topic)
        ask_for_others(consumer, admin)
        assert topic not in admin.list_topics()
