"""Kafka's own script sets, shows and removes quotas."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.clients.test_java_tools import Tool, tool

__all__ = ["tool"]
USER, CLIENT, IP = ("--entity-type", "users"), ("--entity-type", "clients"), ("--entity-type", "ips")


def named(kind: Sequence[str], name: str | None) -> tuple[str, ...]:
    return (*kind, "--entity-default") if name is None else (*kind, "--entity-name", name)


@pytest.mark.parametrize(
    ("entity", "setting", "shown"),
    [
        (named(USER, "an ä/user*"), "producer_byte_rate=5000000", "user-principal 'an ä/user*'"),
        (named(USER, "nobody") + named(CLIENT, "no app"), "request_percentage=900.5", "client-id 'no app'"),
        (named(USER, "nobody") + named(CLIENT, None), "consumer_byte_rate=5000000", "the default client-id"),
        (named(CLIENT, "no app"), "controller_mutation_rate=1000.0", "client-id 'no app'"),
        (named(IP, "192.0.2.1"), "connection_creation_rate=1000", "ip '192.0.2.1'"),
        (named(IP, None), "connection_creation_rate=1000000", "the default ip"),
    ],
)
def test_a_quota_is_set_shown_and_removed(tool: Tool, entity: tuple[str, ...], setting: str, shown: str) -> None:
    key, _, value = setting.partition("=")
    tool("ConfigCommand", "--alter", *entity, "--add-config", setting)
    described = tool("ConfigCommand", "--describe", *entity)
    assert shown in described
    assert f"{key}={float(value)}" in described
    tool("ConfigCommand", "--alter", *entity, "--delete-config", key)
    assert key not in tool("ConfigCommand", "--describe", *entity)


def test_a_users_password_and_quota_are_shown_together(tool: Tool) -> None:
    user = named(USER, "both")
    for setting in ("SCRAM-SHA-256=[iterations=4096,password=secret]", "producer_byte_rate=5000000"):
        tool("ConfigCommand", "--alter", *user, "--add-config", setting)
    described = tool("ConfigCommand", "--describe", *user)
    assert "producer_byte_rate=5000000.0" in described
    assert "SCRAM-SHA-256=iterations=4096" in described
    tool("ConfigCommand", "--alter", *user, "--delete-config", "producer_byte_rate")
    described = tool("ConfigCommand", "--describe", *user)
    assert "producer_byte_rate" not in described
    assert "SCRAM-SHA-256=iterations=4096" in described


def test_the_java_producer_is_throttled_by_the_quota_of_its_client_id(tool: Tool, topic: str) -> None:
    client = named(CLIENT, "slow")
    tool("ConfigCommand", "--alter", *client, "--add-config", "producer_byte_rate=1000000")
    told = tool(
        "ProducerPerformance", *("--topic", topic, "--num-records", "16000", "--record-size", "1000"),
        *("--throughput", "-1", "--command-property", "client.id=slow", "--print-metrics"),
    )
    tool("ConfigCommand", "--alter", *client, "--delete-config", "producer_byte_rate")
    waits = [line for line in told.splitlines() if "produce-throttle-time-max" in line]
    assert any(float(line.rpartition(":")[2]) > 0 for line in waits), told
