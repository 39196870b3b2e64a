"""Every broker of a cluster applies quotas to clients, but not to other brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from conformance.data import batches
from conformance.scenarios.cluster.brokers import OpenCluster
from harness.clients.librdkafka import write
from harness.protocol.wire_client import Wire, encode_request
from harness.waiting import until

CLIENT = "held-back"
ANYBODY = {"entity_type": "user", "entity_name": None}
OF_CLIENT = {"entity_type": "client-id", "entity_name": CLIENT}


def alter(cluster: OpenCluster, broker: int, entity: Sequence[Mapping[str, str | None]], **rates: float | None) -> None:
    ops = [{"key": key, "value": rate or 0.0, "remove": rate is None} for key, rate in rates.items()]
    with Wire(cluster.address(broker)) as wire:
        entries = [{"entity": entity, "ops": ops}]
        [result] = wire.ask("AlterClientQuotas", 1, entries=entries, validate_only=False).entries
    assert result.error_code == 0, result.error_message


def wait_ms(cluster: OpenCluster, broker: int, topic: str) -> int:
    """Returns the throttle time after an oversized batch, which only a leader appends."""
    partition = {"index": 0, "records": batches.batch([b"v" * 20_000])}
    data = [{"name": topic, "partition_data": [partition]}]
    fields = {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": data}
    with Wire(cluster.address(broker)) as wire:
        wire.send(encode_request("Produce", 8, fields, client_id=CLIENT))
        return int(wire.reply("Produce", 8, 1).throttle_time_ms)


def test_every_broker_throttles_a_client_whichever_broker_set_the_quota(cluster: OpenCluster, topic: str) -> None:
    cluster.place_topic(topic, {0: (1, 2, 3)})
    asked = next(broker for broker in cluster.ids if broker != cluster.controller_node())
    alter(cluster, asked, [OF_CLIENT], producer_byte_rate=1000)
    try:
        assert wait_ms(cluster, asked, topic) > 0
        for broker in cluster.ids:
            until(partial(wait_ms, cluster, broker, topic), f"the quota at broker {broker}")
        with cluster.tree() as tree:
            stored = json.loads(tree.data(f"/config/clients/{CLIENT}") or b"")
        assert stored == {"version": 1, "config": {"producer_byte_rate": "1000"}}
    finally:
        alter(cluster, asked, [OF_CLIENT], producer_byte_rate=None)


def test_client_quotas_do_not_slow_down_replication(cluster: OpenCluster, topic: str) -> None:
    """All replicas get three megabytes, though any client's fetches of these would take an hour."""
    cluster.place_topic(topic, {0: (1, 2, 3)}, min_insync_replicas=3)
    rates = {"consumer_byte_rate": 1000.0, "controller_mutation_rate": 0.01}
    alter(cluster, 1, [ANYBODY], **rates)
    try:
        assert len(write(cluster, topic, [b"v" * 10_000] * 300, acks="all")) == 300
        assert cluster.is_in_sync(topic)
    finally:
        alter(cluster, 1, [ANYBODY], **dict.fromkeys(rates))
