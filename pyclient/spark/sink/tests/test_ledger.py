"""A ledger that cannot be read is an error, and does not count as empty."""

from __future__ import annotations

import pytest

from pyclient import Admin, TopicPartition
from pyclient.admin import NewTopic
from pyclient.admin.types import AlterConfigOp, ConfigResource, ResourceType
from pyclient.errors import ConfigError, KafkaError
from pyclient.spark.sink.exactly_once import Record
from pyclient.spark.sink.ledger import Ledger
from pyclient.tests.brokers import broker, unique  # noqa: F401


@pytest.fixture
def admin(broker):  # noqa: F811
    with Admin(broker.bootstrap) as client:
        yield client


def ledger(broker, admin, topic):  # noqa: F811
    return Ledger({"bootstrap.servers": broker.bootstrap}, topic, admin)


def test_records_deleted_during_the_read_are_an_error_not_an_empty_ledger(broker, admin, monkeypatch):  # noqa: F811
    """The cause is a topic with another cleanup policy, or a leader that was not in sync."""
    topic = unique("ledger")
    with ledger(broker, admin, topic) as one:
        one.append(Record("q", "r", 1))
        bounds = one._bounds()
        monkeypatch.setattr(one, "_bounds", lambda: bounds)
        delete = AlterConfigOp("cleanup.policy", "delete")
        admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, topic): [delete]})
        admin.delete_records({TopicPartition(topic, 0): bounds[1]})
        with pytest.raises(KafkaError):
            one.state("q")


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_is_not_compacted_is_refused_as_a_ledger(broker, admin, policy):  # noqa: F811
    topic = unique("ledger")
    admin.create_topics(NewTopic(topic, 1, 1, configs={"cleanup.policy": policy}))
    with pytest.raises(ConfigError, match=f"{topic} has cleanup.policy={policy}: it must be compact"):
        ledger(broker, admin, topic)
