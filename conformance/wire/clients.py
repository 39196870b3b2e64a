"""Lets each client do its usual work for the recorder: produce, consume, group, administration."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable

from harness.peers import Java

QUICK_GROUPS = {"group.initial.rebalance.delay.ms": "0"}
LINES = b"one\ntwo\nthree\n"


def kcat(bootstrap: str) -> None:
    """Runs librdkafka 2.0 through kcat: list, produce (plain, acks=0, idempotent), consume, group."""

    def run(*arguments: str, feed: bytes = b"") -> None:
        command = [shutil.which("kcat") or "kcat", "-b", bootstrap, *arguments]
        subprocess.run(command, input=feed, check=True, timeout=60, stdout=subprocess.DEVNULL)

    run("-P", "-t", "golden", feed=LINES)
    run("-P", "-t", "golden", "-X", "acks=0", feed=LINES)
    run("-P", "-t", "golden", "-X", "enable.idempotence=true", "-z", "lz4", feed=LINES)
    run("-L")
    run("-Q", "-t", "golden:0:-1")
    run("-C", "-t", "golden", "-o", "beginning", "-e", "-q")
    run("-G", "golden-group", "golden", "-c", "3", "-q", "-X", "auto.offset.reset=earliest")


def confluent(bootstrap: str) -> None:
    """Runs librdkafka 2.x through confluent-kafka, with its Admin."""
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("golden", 1, 1)])["golden"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for line in LINES.split():
        producer.produce("golden", line, key=b"key", headers={"h": b"v"})
    producer.flush(30)
    settings = {"bootstrap.servers": bootstrap, "group.id": "golden-group"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "client.rack": "here"})
    consumer.subscribe(["golden"])
    assert len(consumer.consume(3, 30)) == 3
    consumer.commit(asynchronous=False)
    consumer.committed([TopicPartition("golden", 0)], 30)
    consumer.offsets_for_times([TopicPartition("golden", 0, 1)], 30)
    admin.describe_consumer_groups(["golden-group"])["golden-group"].result(30)
    consumer.close()
    admin.list_consumer_groups().result(30)
    offsets = [ConsumerGroupTopicPartitions("golden-group")]
    admin.list_consumer_group_offsets(offsets)["golden-group"].result(30)
    admin.describe_cluster().result(30)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "golden")
    admin.describe_configs([resource])[resource].result(30)
    changed = ConfigResource(ConfigResource.Type.TOPIC, "golden", {"retention.ms": "1000000"})
    admin.alter_configs([changed])[changed].result(30)
    admin.create_partitions([NewPartitions("golden", 2)])["golden"].result(30)
    first = TopicPartition("golden", 0, 1)
    admin.delete_records([first])[first].result(30)
    admin.delete_consumer_groups(["golden-group"])["golden-group"].result(30)
    admin.delete_topics(["golden"])["golden"].result(30)


def kafka_python(bootstrap: str) -> None:
    """Runs kafka-python: producer, group consumer, Admin."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic("golden", 1, 1)])
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for line in LINES.split():
        producer.send("golden", line).get(30)
    producer.close()
    consumer = KafkaConsumer(
        "golden", bootstrap_servers=bootstrap, group_id="golden-group",
        auto_offset_reset="earliest", consumer_timeout_ms=5000,
    )  # fmt: skip
    assert len([next(consumer) for _ in range(3)]) == 3
    consumer.commit()
    consumer.end_offsets(consumer.assignment())
    consumer.close()
    admin.delete_topics(["golden"])
    admin.close()


def aiokafka(bootstrap: str) -> None:
    """Runs aiokafka: idempotent producer, group consumer."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True
        ) as producer:
            for line in LINES.split():
                await producer.send_and_wait("golden", line)
        async with AIOKafkaConsumer(
            "golden",
            bootstrap_servers=bootstrap,
            group_id="golden-group",
            auto_offset_reset="earliest",
        ) as consumer:
            for _ in range(3):
                await asyncio.wait_for(consumer.getone(), 30)
            await consumer.commit()

    asyncio.run(work())


def java(bootstrap: str) -> None:
    """Runs the console tools of Kafka 4.4.0: topics, producer, both kinds of groups, configurations."""
    run, tools, server = Java(), "org.apache.kafka.tools", ("--bootstrap-server", bootstrap)
    topics, groups = f"{tools}.TopicCommand", f"{tools}.consumer.group.ConsumerGroupCommand"
    run(topics, *server, "--create", "--topic", "golden", "--partitions", "1")
    run(f"{tools}.ConsoleProducer", *server, "--topic", "golden", stdin=LINES)
    consume = (
        f"{tools}.consumer.ConsoleConsumer",
        *server,
        "--topic",
        "golden",
        "--max-messages",
        "3",
    )
    run(*consume, "--from-beginning", "--group", "golden-group")
    modern = ("--consumer-property", "group.protocol=consumer")
    run(*consume, "--from-beginning", "--group", "golden-848", *modern)
    run(groups, *server, "--describe", "--group", "golden-group")
    run(groups, *server, "--list")
    run(groups, *server, "--delete", "--group", "golden-group")
    run(f"{tools}.GetOffsetShell", *server, "--topic", "golden")
    run(f"{tools}.LogDirsCommand", *server, "--describe", "--topic-list", "golden")
    configs = (
        f"{tools}.ConfigCommand",
        *server,
        "--entity-type",
        "topics",
        "--entity-name",
        "golden",
    )
    run(*configs, "--alter", "--add-config", "retention.ms=1000000")
    run(*configs, "--describe")
    run(
        f"{tools}.TransactionsCommand",
        *server,
        "describe-producers",
        "--topic",
        "golden",
        "--partition",
        "0",
    )
    run(f"{tools}.ClusterTool", "cluster-id", *server)
    run(topics, *server, "--alter", "--topic", "golden", "--partitions", "2")
    run(topics, *server, "--describe")
    run(topics, *server, "--delete", "--topic", "golden")


CLIENTS: dict[str, Callable[[str], None]] = {
    "kcat": kcat,
    "confluent_kafka": confluent,
    "kafka_python": kafka_python,
    "aiokafka": aiokafka,
    "java": java,
}
