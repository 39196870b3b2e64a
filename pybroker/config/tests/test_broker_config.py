"""The layers of a broker's configuration, and what topics and groups derive from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config import (
    BrokerConfig,
    ConfigError,
    Endpoint,
    Source,
    advertised_listeners,
    check_group_configs,
    describe_broker_key,
    describe_group_key,
    describe_topic_key,
    group_config,
    listeners,
    parse_topic_overrides,
    topic_config,
)
from pybroker.config.listeners import between_brokers
from pybroker.config.log_config import LogConfig
from pybroker.config.remarks import of_environment

HOUR_MS = 3_600_000

REAL_SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
ssl.keystore.password=secret
listener.name.internal.ssl.keystore.location=/x
"""


def test_arguments_override_the_environment_which_overrides_the_file_and_its_base(tmp_path: Path) -> None:
    path, base = tmp_path / "server.properties", tmp_path / "cluster.properties"
    base.write_text("node.id=1\nlog.roll.hours=1\nbroker.rack=r")
    path.write_text("num.partitions=2\nlog.retention.hours=2\nlog.roll.hours=2\nnode.id=2")
    config = BrokerConfig.load(
        ["num.partitions=4"],
        {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_RETENTION_HOURS": "3"},
        str(path),
        str(base),
    )
    assert config["num.partitions"] == 4
    assert config["log.retention.hours"] == 3
    assert config["log.roll.hours"] == 2
    assert config.node_id == 2
    assert config["broker.rack"] == "r"
    assert config["message.max.bytes"] == 1_048_588


def test_the_server_properties_of_a_real_kafka_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(REAL_SERVER_PROPERTIES)
    config = BrokerConfig.load([], {}, str(path))
    assert listeners(config) == (Endpoint("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)


def test_an_unknown_key_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.load(["log.segmnt.bytes=1"], {})
    assert str(error.value) == (
        "log.segmnt.bytes is unknown: did you mean log.segment.bytes? (from --set)"
    )


@pytest.mark.parametrize("factor", ["0", "-1", "1.5"])
def test_a_load_factor_of_the_cleaner_that_is_not_a_fraction_is_refused(factor: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.cleaner\.io\.buffer\.load\.factor"):
        BrokerConfig.load([f"log.cleaner.io.buffer.load.factor={factor}"], {})


def test_an_environment_variable_with_an_unknown_key_is_ignored_and_reported() -> None:
    variables = {"KAFKA_BOOTSTRAP_SERVERS": "b:9092", "KAFKA_NUM_PARTITION": "2", "KAFKA_NUM_IO_THREADS": "2"}
    BrokerConfig.load([], variables)
    assert list(of_environment(variables)) == [
        "KAFKA_BOOTSTRAP_SERVERS is ignored: bootstrap.servers is unknown",
        "KAFKA_NUM_PARTITION is ignored: num.partition is unknown: did you mean num.partitions?",
    ]


def test_the_error_for_an_invalid_value_names_its_environment_variable() -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.load([], {"KAFKA_LOG_SEGMENT_BYTES": "12"})
    assert str(error.value) == "log.segment.bytes=12 is below 1024 (from KAFKA_LOG_SEGMENT_BYTES)"


def test_typed_values_can_be_given_directly() -> None:
    config = BrokerConfig({"num.partitions": 3, "auto.create.topics.enable": False})
    assert (config["num.partitions"], config["auto.create.topics.enable"]) == (3, False)


def test_all_errors_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=3\nlog.retention.ms=seven\nlog.segment.bytes=1\n")
    with pytest.raises(ConfigError) as error:
        BrokerConfig.load(environment={}, file=str(file))
    assert str(error.value).split("; ") == [
        f"num.partition is unknown: did you mean num.partitions? (from {file}:1)",
        f"log.retention.ms=seven is not a whole number (from {file}:2)",
        f"log.segment.bytes=1 is below 1024 (from {file}:3)",
    ]


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "1"}, HOUR_MS),
        ({"log.retention.hours": "1", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_log_retention_ms_overrides_minutes_which_override_hours(
    settings: dict[str, str], retention_ms: int
) -> None:
    assert topic_config(BrokerConfig(settings), {}).retention_ms == retention_ms


def test_log_roll_and_flush_keys_of_the_broker_set_those_of_a_topic() -> None:
    config = BrokerConfig(
        {"log.roll.hours": "2", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": 9}
    )
    log = topic_config(config, {})
    assert (log.segment_ms, log.segment_jitter_ms, log.flush_ms) == (2 * HOUR_MS, HOUR_MS, 9)
    assert topic_config(BrokerConfig({"log.roll.ms": "7"}), {}).segment_ms == 7


def test_a_topic_config_overrides_the_brokers_default() -> None:
    config = BrokerConfig({"log.cleanup.policy": "compact", "flush.acks": "true"})
    log = topic_config(config, {"cleanup.policy": "compact, delete", "segment.bytes": "2048"})
    assert log.cleanup_policy == {"compact", "delete"}
    assert (log.segment_bytes, log.flush_acks) == (2048, True)
    assert topic_config(config, {}).cleanup_policy == {"compact"}


def test_a_log_without_settings_has_kafkas_defaults() -> None:
    assert topic_config(BrokerConfig({}), {}) == LogConfig()


def test_equal_topic_configs_are_one_object_until_a_default_changes() -> None:
    config = BrokerConfig({})
    before = topic_config(config, {"retention.ms": "5"})
    assert topic_config(config, {"retention.ms": "5"}) is before
    config.override({}, {"log.segment.bytes": "4096"})
    assert topic_config(config, {"retention.ms": "5"}).segment_bytes == 4096


def test_an_invalid_topic_config_is_refused() -> None:
    for overrides, complaint in (
        ({"retention.m": "1"}, "retention.m is unknown: did you mean retention.ms?"),
        ({"segment.bytes": "12"}, "segment.bytes=12 is below 1024"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms=10 is above max.compaction.lag.ms=5",
        ),
        ({"message.timestamp.difference.max.ms": "1"}, "message.timestamp.difference.max.ms is"),
    ):
        with pytest.raises(ConfigError) as error:
            parse_topic_overrides(overrides)
        assert str(error.value).startswith(complaint)


def test_a_dynamic_broker_config_overrides_the_clusters_which_overrides_the_static_one() -> None:
    config = BrokerConfig({"log.cleaner.threads": "2"})
    config.override({}, {"log.cleaner.threads": "3"})
    assert config["log.cleaner.threads"] == 3
    config.override({"log.cleaner.threads": "4"}, {"log.cleaner.threads": "3"})
    assert [(o.text, o.source) for o in config.origins("log.cleaner.threads")] == [
        ("4", Source.DYNAMIC_BROKER),
        ("3", Source.DYNAMIC_DEFAULT_BROKER),
        ("2", Source.STATIC_BROKER),
        ("1", Source.DEFAULT),
    ]
    config.override({}, {})
    assert config["log.cleaner.threads"] == 2
    assert config.source("log.cleaner.threads") is Source.STATIC_BROKER


def test_a_change_of_dynamic_configs_reports_only_the_changed_keys() -> None:
    config = BrokerConfig({"max.connections": "5"})
    heard: list[frozenset[str]] = []
    config.on_change(heard.append)
    config.override({}, {"max.connections": "5"})
    assert heard == []
    assert config.override({"max.connections": "6"}, {}) == {"max.connections"}
    assert heard == [{"max.connections"}]


def test_an_invalid_dynamic_config_is_ignored() -> None:
    config = BrokerConfig({})
    config.override({"max.connections": "x", "node.id": "9", "gone.key": "1"}, {})
    assert config["max.connections"] == (1 << 31) - 1
    assert config["node.id"] is None


def test_a_described_topic_config_has_its_source_and_synonyms() -> None:
    config = BrokerConfig({"log.retention.hours": "1"})
    shown = describe_topic_key(config, "retention.ms", {})
    assert (shown.text, shown.source) == (str(HOUR_MS), Source.STATIC_BROKER)
    shown = describe_topic_key(config, "retention.ms", {"retention.ms": " 5 "})
    assert [(o.name, o.text) for o in shown.synonyms] == [
        ("retention.ms", "5"),
        ("log.retention.hours", "1"),
        ("log.retention.hours", "168"),
    ]
    assert describe_topic_key(config, "remote.storage.enable", {}).synonyms == []


def test_a_described_broker_config_has_its_synonyms() -> None:
    config = BrokerConfig({"log.retention.minutes": "5"})
    shown = describe_broker_key(config, "log.retention.ms")
    assert (shown.text, shown.source) == (None, Source.DEFAULT)
    assert [o.name for o in shown.synonyms] == ["log.retention.minutes", "log.retention.hours"]


def test_a_group_config_has_the_brokers_default_and_bounds() -> None:
    config = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    name = "consumer.session.timeout.ms"
    assert group_config(config, {}, name) == 50_000
    assert group_config(config, {name: "46000"}, name) == 46_000
    assert describe_group_key(config, name, {name: "46000"}).source is Source.DYNAMIC_GROUP
    check_group_configs(config, {name: "46000"})
    for bad in ({name: "5"}, {name: "5000000"}, {name: "x"}, {"nope": "1"}):
        with pytest.raises(ConfigError):
            check_group_configs(config, bad)


def test_listeners_are_parsed_with_their_protocols() -> None:
    config = BrokerConfig(
        {
            "listeners": "IN://[::1]:1,out://0.0.0.0:0",
            "listener.security.protocol.map": "IN:PLAINTEXT, OUT:SASL_SSL",
            "advertised.listeners": "OUT://example.org:9",
        }
    )
    assert listeners(config) == (
        Endpoint("IN", "PLAINTEXT", "::1", 1),
        Endpoint("OUT", "SASL_SSL", "0.0.0.0", 0),
    )
    assert str(listeners(config)[0]) == "IN://[::1]:1"
    assert advertised_listeners(config) == {"OUT": Endpoint("OUT", "SASL_SSL", "example.org", 9)}


@pytest.mark.parametrize("text", ["SSL:PLAINTEXT,PLAINTEXT:SSL", "ssl: plaintext , Plaintext :ssl"])
def test_the_protocol_of_a_listener_comes_from_the_protocol_map_not_from_its_name(text: str) -> None:
    config = BrokerConfig({"listeners": "SSL://a:1,PLAINTEXT://a:2", "listener.security.protocol.map": text})
    assert listeners(config) == (Endpoint("SSL", "PLAINTEXT", "a", 1), Endpoint("PLAINTEXT", "SSL", "a", 2))
    assert between_brokers(config) == Endpoint("SSL", "PLAINTEXT", "a", 1)


def test_port_and_host_name_set_the_listener_if_listeners_is_not_set() -> None:
    config = BrokerConfig({"port": "7", "host.name": "h"})
    assert listeners(config) == (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 7),)


@pytest.mark.parametrize(
    "settings",
    [
        {"listeners": "PLAINTEXT:9092"},
        {"listeners": "PLAINTEXT://h:70000"},
        {"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"},
        {"listeners": "OTHER://h:1"},
        {"listener.security.protocol.map": "PLAINTEXT:NONE"},
        {"listener.security.protocol.map": "PLAINTEXT"},
        {"advertised.listeners": "PLAINTEXT://:1"},
        {"advertised.listeners": "SSL://h:1"},
    ],
)
def test_an_invalid_listener_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        advertised_listeners(BrokerConfig(settings))


def test_broker_id_and_log_dir_set_what_node_id_and_log_dirs_do() -> None:
    assert BrokerConfig({"broker.id": "3"}).node_id == 3
    assert BrokerConfig({"broker.id": "-1"}).node_id is None
    assert BrokerConfig({"log.dir": "/x"}).log_dirs == ("/x",)
    assert BrokerConfig({"log.dirs": "/x, /y,"}).log_dirs == ("/x", "/y")
