"""Spark's own connector for Kafka, unchanged, against the broker: S115."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.applications.committed import read_all
from conformance.conftest import Counted, NewTopic
from conformance.spark import connector
from harness.clients.librdkafka import present
from harness.servers.brokers import Broker

COUNT = 50_000


@pytest.mark.campaign
@pytest.mark.row
@pytest.mark.timeout(1800)
def test_s115_the_real_spark_sql_kafka_writes_and_reads_the_broker_in_batches_and_streams(
    broker: Broker, new_topic: NewTopic, tmp_path: Path, counted: Counted
) -> None:
    topic = new_topic(3)
    new_topic(2, name=f"{topic}-copy")
    found = connector.run("both_ways.py", broker.bootstrap, topic, str(COUNT), str(tmp_path))
    for name, partitions in ((topic, 3), (f"{topic}-copy", 2)):
        assert found[name] == {"n": COUNT, "different": COUNT, "total": COUNT * (COUNT - 1) // 2}
        messages = read_all(broker, name, partitions)
        assert sorted(int(present(message.value())) for message in messages) == list(range(COUNT))
        counted(name.rpartition("-")[2], written=COUNT, read=found[name]["n"])
