"""Fills a topic for consumers, with raw requests that repeat one batch."""

from __future__ import annotations

from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker, BrokerError


def fill(broker: Broker, topic: str, partitions: int, batch: bytes, batches: int, into: int | None = None) -> None:
    """Creates the topic and writes the batch this many times, to its first ``into`` partitions in turn (by default
    all).

    Raises:
        BrokerError: the broker refused one.
    """
    with Wire(broker.address, 60) as wire:
        wire.create_topic(topic, partitions, {})
        for number in range(batches):
            rows = [{"index": number % (into or partitions), "records": batch}]
            data = [{"name": topic, "partition_data": rows}]
            reply = wire.ask("Produce", 9, acks=1, timeout_ms=30_000, topic_data=data)
            if error := reply.responses[0].partition_responses[0].error_code:
                raise BrokerError(f"the broker refused a batch with error {error}")
