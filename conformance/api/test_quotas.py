"""Sets, describes, removes and refuses quotas by kafka-python's messages."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.data import batches
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire, encode_request
from harness.servers.brokers import Broker

CLIENT = "held-back"
ENTITY = [{"entity_type": "client-id", "entity_name": CLIENT}]


def alter(wire: Wire, version: int, value: float | None, key: str = "producer_byte_rate") -> Any:
    ops = [{"key": key, "value": value or 0.0, "remove": value is None}]
    fields = {"entries": [{"entity": ENTITY, "ops": ops}], "validate_only": False}
    [result] = wire.ask("AlterClientQuotas", version, **fields).entries
    return result


def described(wire: Wire, version: int) -> list[dict[str, float]]:
    component = {"entity_type": "client-id", "match_type": 0, "match": CLIENT}
    reply = wire.ask("DescribeClientQuotas", version, components=[component], strict=True)
    assert reply.error_code == 0
    return [{value.key: value.value for value in entry.values} for entry in reply.entries]


@pytest.mark.parametrize("version", [0, 1])
def test_a_quota_is_set_described_and_removed(broker: Broker, version: int) -> None:
    with Wire(broker.address) as wire:
        assert alter(wire, version, 1e9).error_code == 0
        assert described(wire, version) == [{"producer_byte_rate": 1e9}]
        assert alter(wire, version, None).error_code == 0
        assert described(wire, version) == []


def test_a_negative_quota_and_an_unknown_quota_type_are_refused(broker: Broker) -> None:
    with Wire(broker.address) as wire:
        assert alter(wire, 1, -1.0).error_code == error_codes.INVALID_REQUEST
        assert alter(wire, 1, 1.0, "speed").error_message == "Invalid configuration key speed"
        component = {"entity_type": "color", "match_type": 2, "match": None}
        reply = wire.ask("DescribeClientQuotas", 1, components=[component], strict=False)
        assert (reply.error_code, reply.entries) == (error_codes.UNSUPPORTED_VERSION, None)


def test_a_throttled_client_gets_its_throttle_time(broker: Broker, topic: str) -> None:
    """A client with another client id has no quota."""
    with Wire(broker.address) as wire:
        assert alter(wire, 1, 1000.0).error_code == 0
    try:
        with Wire(broker.address) as wire:
            assert produce(wire, topic, CLIENT) > 0
        with Wire(broker.address) as wire:
            assert produce(wire, topic, "another") == 0
    finally:
        with Wire(broker.address) as wire:
            alter(wire, 1, None)


def produce(wire: Wire, topic: str, client_id: str) -> int:
    partition = {"index": 0, "records": batches.batch([b"v" * 20_000])}
    data = [{"name": topic, "partition_data": [partition]}]
    fields = {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": data}
    wire.send(encode_request("Produce", 8, fields, client_id=client_id))
    reply = wire.reply("Produce", 8, 1)
    assert reply.responses[0].partition_responses[0].error_code == 0
    return int(reply.throttle_time_ms)
