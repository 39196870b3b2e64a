"""Sends again, byte by byte, what real clients sent to a real Kafka.

The broker must understand every frame of an API that it advertises. It answers with the correlation id, in a form that
a foreign codec (kafka-python's) can read, and keeps the connection. The content of the answer depends on the broker's
state; other tests check it.
"""

from __future__ import annotations

import pytest

from harness.protocol.golden_frames import FILES, Exchange, read
from harness.protocol.wire_client import Wire, decode_response, message_class
from harness.servers.brokers import Broker
from harness.waiting import until

#: JoinGroup and SyncGroup may keep a client waiting for members that are missing here.
WAITING = {11, 14}
TOPIC = {
    "name": "golden",
    "num_partitions": 1,
    "replication_factor": 1,
    "assignments": [],
    "configs": [],
}
EXCHANGES = [
    pytest.param(exchange, id=f"{path.stem}: {exchange}")
    for path in FILES
    for exchange in read(path)
    if exchange.api_key not in WAITING
]


@pytest.fixture(scope="module")
def advertised(broker: Broker) -> dict[int, tuple[int, int]]:
    with Wire(broker.address) as wire:
        return wire.versions()


@pytest.fixture(autouse=True)
def golden_topic(broker: Broker) -> None:
    """Creates the topic that the frames name; some of them delete it."""
    with Wire(broker.address) as wire:
        if (
            wire.ask("Metadata", 4, topics=[{"name": "golden"}], allow_auto_topic_creation=False)
            .topics[0]
            .error_code
        ):
            wire.ask("CreateTopics", 4, topics=[TOPIC], timeout_ms=30_000, validate_only=False)
            until(lambda: not any(row.error_code for row in wire.metadata("golden").partitions), "its leader")


def is_known_to_kafka_python(name: str, version: int) -> bool:
    try:
        response = message_class(f"{name}Response")
    except LookupError:
        return False
    return bool(response.min_version <= version <= response.max_version)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_recorded_frame_of_a_real_client_is_answered(
    exchange: Exchange, wire: Wire, advertised: dict[int, tuple[int, int]]
) -> None:
    low, high = advertised.get(exchange.api_key, (1, 0))
    wire.send(exchange.request)
    if not low <= exchange.version <= high:
        assert wire.closed_by_peer()
        return
    if exchange.response:
        answer = wire.receive()
        assert answer[:4] == exchange.correlation_id
        name, version = str(exchange).split()
        if is_known_to_kafka_python(name, int(version)):
            decode_response(name, int(version), answer)
    assert wire.versions(), "the connection stays open"
