"""Configuration files of Kafka and its distributors: keys without effect are named, and a mistyped key is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config import BrokerConfig, ConfigError, listeners
from pybroker.config.keys.inert_keys import UNMET
from pybroker.config.remarks import of_environment, of_internals, of_settings

KRAFT = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
log.retention.hours=168
"""
CONFLUENT = """
broker.id=0
num.partitions=3
metric.reporters=io.confluent.metrics.reporter.ConfluentMetricsReporter
confluent.metrics.reporter.bootstrap.servers=localhost:9092
confluent.metrics.reporter.topic.replicas=1
confluent.license.topic.replication.factor=1
confluent.metadata.topic.replication.factor=1
confluent.security.event.logger.exporter.kafka.topic.replicas=1
confluent.balancer.enable=true
confluent.cluster.link.enable=true
"""


def loaded(folder: Path, text: str, *arguments: str) -> BrokerConfig:
    file = folder / "server.properties"
    file.write_text(text)
    return BrokerConfig.load(arguments, {}, file=str(file))


def test_a_line_that_is_not_a_property_is_reported_with_its_line_number(tmp_path: Path) -> None:
    told = list(of_settings(loaded(tmp_path, "num.partitions=2\nthis is not a property\nconfluent.license=x\n")))
    assert told == [
        "ignored, because they are not Kafka's keys: confluent.license",
        f"{tmp_path}/server.properties:2 is ignored: it is not of the form key=value",
    ]


def test_a_private_key_whose_lines_do_not_end_in_a_backslash_is_not_shown(tmp_path: Path) -> None:
    lines = ["qA7" * 21 + "+/", "kafkaQ9x" * 5, "Zx9kQ3==", "log5Kq+/7==", "num8Q", "-----END PRIVATE KEY-----"]
    file = tmp_path / "server.properties"
    file.write_text("\n".join(["ssl.keystore.key=-----BEGIN PRIVATE KEY-----", *lines]))
    errors: list[ConfigError] = []
    config = BrokerConfig.load((), {}, file=str(file), errors=errors)
    told = [*map(str, errors), *of_settings(config)]
    assert not [(line, each) for line in told for each in lines if each.rstrip("=") in line]
    assert not [each for each in told if "-----" in each]
    assert {number for number in range(2, 8) if any(f"{file}:{number}" in each for each in told)} == set(range(2, 8))


def test_a_load_collects_all_errors_on_request(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=3\nnum.partitions=x\nlog.retention.hours=2\n")
    errors: list[ConfigError] = []
    config = BrokerConfig.load((), {}, file=str(file), errors=errors)
    assert [str(each).partition(" ")[0] for each in errors] == ["num.partition", "num.partitions=x"]
    assert config["log.retention.hours"] == 2


def test_kafkas_own_server_properties_cause_warnings_only_about_missing_features(tmp_path: Path) -> None:
    assert list(of_settings(loaded(tmp_path, KRAFT))) == [
        "without effect, because there are no share and streams groups: "
        "share.coordinator.state.topic.min.isr, share.coordinator.state.topic.replication.factor"
    ]


def test_keys_that_are_not_needed_here_are_named_in_one_line(tmp_path: Path) -> None:
    assert of_internals(loaded(tmp_path, f"{KRAFT}metrics.num.samples=2")) == (
        "without effect, and not needed here: process.roles, controller.quorum.bootstrap.servers, "
        "controller.listener.names, num.network.threads, num.io.threads, metrics.num.samples"
    )
    assert of_internals(loaded(tmp_path, "num.partitions=2\nmetric.reporters=a.B")) == ""


def test_unknown_keys_of_a_vendor_are_reported_in_one_line(tmp_path: Path) -> None:
    ignored, metrics = of_settings(loaded(tmp_path, CONFLUENT))
    names = [line.partition("=")[0] for line in CONFLUENT.split() if line.startswith("confluent.")]
    assert ignored == f"ignored, because they are not Kafka's keys: {', '.join(names)}"
    assert metrics == "without effect, because there are no JMX metrics: metric.reporters"


def test_keys_that_resemble_kafkas_and_keys_of_older_kafkas_are_reported(tmp_path: Path) -> None:
    text = "logs.dir=/l\nlog.deletion.max.segments.per.run=1\nauto.include.jmx.reporter=true"
    (line,) = of_settings(loaded(tmp_path, text))
    assert line.endswith("Kafka's keys: logs.dir, log.deletion.max.segments.per.run, auto.include.jmx.reporter")


@pytest.mark.parametrize("key", ["super.users=User:admin", "allow.everyone.if.no.acl.found=true"])
def test_acl_settings_are_reported_if_there_is_no_authorizer(tmp_path: Path, key: str) -> None:
    (line,) = of_settings(loaded(tmp_path, key))
    name = key.partition("=")[0]
    assert line == f"without effect, because without an authorizer everybody may do everything: {name}"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["sasl.enabled.mechanisms=PLAIN", "connections.max.reauth.ms=1"],
         ["without effect, because none of their listeners is SASL_SSL or SASL_PLAINTEXT: "
          "sasl.enabled.mechanisms, connections.max.reauth.ms"]),
        (["listener.name.plaintext.plain.sasl.jaas.config=secret"],
         ["without effect, because none of their listeners is SASL_SSL or SASL_PLAINTEXT: "
          "listener.name.plaintext.plain.sasl.jaas.config"]),
        (["sasl.enabled.mechanism=PLAIN"],
         ["sasl.enabled.mechanism is ignored: it is unknown: did you mean sasl.enabled.mechanisms?"]),
        (["sasl.plug.in=secret"], ["sasl.plug.in is ignored: it is unknown"]),
        (["listener.name.plaintext.sasl.enabled.mechanism=PLAIN"],
         ["listener.name.plaintext.sasl.enabled.mechanism is ignored: it is unknown: did you mean "
          "listener.name.plaintext.sasl.enabled.mechanisms?"]),
        (["listeners=SASL_SSL://:1,PLAINTEXT://:2", "sasl.enabled.mechanisms=PLAIN",
          "listener.name.plaintext.sasl.enabled.mechanisms=PLAIN"],
         ["without effect, because none of their listeners is SASL_SSL or SASL_PLAINTEXT: "
          "listener.name.plaintext.sasl.enabled.mechanisms"]),
        (["principal.builder.class=a.B"],
         [f"without effect, because {UNMET['principal.builder.class']}: principal.builder.class"]),
        (["listeners=SASL_SSL://:1", "sasl.enabled.mechanisms=PLAIN", "connections.max.reauth.ms=1"], []),
        (["listeners=SASL_SSL://:1", "sasl.enabled.mechanisms=SCRAM-SHA-256",
          "listener.name.sasl_ssl.plain.sasl.jaas.config=secret",
          "listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms=1"],
         ["without effect, because their listener does not have the mechanism: "
          "listener.name.sasl_ssl.plain.sasl.jaas.config"]),
        (["listeners=SASL_SSL://:1", "sasl.enabled.mechanisms=PLAIN",
          "listener.name.sasl_ssl.sasl.server.max.receive.size=1"], []),
        (["listeners=PLAINTEXT://:1", "listener.name.plaintext.sasl.server.max.receive.size=1"],
         ["without effect, because none of their listeners is SASL_SSL or SASL_PLAINTEXT: "
          "listener.name.plaintext.sasl.server.max.receive.size"]),
        (["listeners=SASL_SSL://:1", "sasl.enabled.mechanisms=PLAIN",
          "listener.name.sasl_ssl.plain.sasl.server.max.receive.size=1"],
         ["without effect, because of the settings of a single listener only those of TLS, of SASL, max.connections "
          "and max.connection.creation.rate have an effect: "
          "listener.name.sasl_ssl.plain.sasl.server.max.receive.size"]),
    ],
)
def test_sasl_keys_without_effect_are_reported_with_the_reason(settings: list[str], told: list[str]) -> None:
    assert list(of_settings(BrokerConfig.load(settings, {}))) == told


def test_a_controller_listener_needs_no_entry_in_a_protocol_map_that_is_not_set(tmp_path: Path) -> None:
    without = [line for line in KRAFT.splitlines() if not line.startswith("listener.security")]
    (endpoint,) = listeners(loaded(tmp_path, "\n".join(without)))
    assert str(endpoint) == "PLAINTEXT://:9092"
    with pytest.raises(ConfigError, match="map has no CONTROLLER"):
        listeners(loaded(tmp_path, "\n".join([*without, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT"])))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("lisners", "listeners"),
        ("log.segmnt.bytes", "log.segment.bytes"),
        ("transation.max.timeout.ms", "transaction.max.timeout.ms"),
        ("zookeper.connect", "zookeeper.connect"),
    ],
)
def test_a_mistyped_key_in_a_file_is_an_error_with_a_suggestion(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is unknown: did you mean {meant}\? \(from .*:1\)"):
        loaded(tmp_path, f"{name}=1")


def test_a_key_of_a_vendor_is_an_error_on_the_command_line() -> None:
    with pytest.raises(ConfigError, match=r"confluent\.balancer\.enable is unknown"):
        BrokerConfig.load(["confluent.balancer.enable=true"], {})


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("quota.producer.default=1", "default user or client (APIs 48 and 49): quota.producer.default"),
        ("create.topic.policy.class.name=a.B", "there are no policies: create.topic.policy.class.name"),
        ("remote.log.storage.system.enable=true", "there is no tiered storage: remote.log.storage.system.enable"),
        ("rsm.config.x=1", "there is no tiered storage: rsm.config.x"),
        ("listener.name.a.ssl.protocol=x", "creation.rate have an effect: listener.name.a.ssl.protocol"),
        ("sasl.mechanism.inter.broker.protocol=PLAIN", "secret of the cluster: sasl.mechanism.inter.broker.protocol"),
        ("sasl.mechanism.inter.broker.protocol=GSSAPI", "SASL_PLAINTEXT: sasl.mechanism.inter.broker.protocol"),
        ("principal.builder.class=a.B", "endpoint for tokens is used: principal.builder.class"),
        ("advertised.host.name=a", "advertised.listeners sets the addresses for clients: advertised.host.name"),
    ],
)
def test_a_setting_of_a_missing_feature_is_reported_with_the_reason(tmp_path: Path, setting: str, says: str) -> None:
    (line,) = of_settings(loaded(tmp_path, setting))
    assert says in line


def test_a_key_at_its_default_is_not_reported(tmp_path: Path) -> None:
    text = "metric.reporters=org.apache.kafka.common.metrics.JmxReporter\nssl.client.auth=none"
    assert list(of_settings(loaded(tmp_path, text))) == []


def test_zookeeper_connect_in_a_file_for_kraft_is_ignored_and_reported(tmp_path: Path) -> None:
    left_over = loaded(tmp_path, "process.roles=broker\nzookeeper.connect=localhost:2181")
    assert left_over["zookeeper.connect"] is None
    (line,) = of_settings(left_over)
    assert line.startswith("zookeeper.connect=localhost:2181 (from ")
    assert ":2) is not used" in line
    meant = loaded(tmp_path, "process.roles=broker\nzookeeper.connect=a:1", "zookeeper.connect=b:2")
    assert meant["zookeeper.connect"] == "b:2"
    assert loaded(tmp_path, "zookeeper.connect=a:1")["zookeeper.connect"] == "a:1"


def test_a_log_dir_that_begins_with_a_tilde_is_reported() -> None:
    (told,) = of_settings(BrokerConfig({"log.dirs": "/x,~/data"}))
    assert told.startswith("log.dirs=~/data is not in the home folder")


def test_the_variable_cluster_id_of_kafkas_image_is_reported() -> None:
    assert list(of_environment({"CLUSTER_ID": "x", "PATH": "/bin"})) == [
        "CLUSTER_ID is ignored: a new data folder gets a cluster id of its own"
    ]


OF_SASL = "listener.name.sasl_ssl.ssl.client.auth"
BETWEEN = "sasl.mechanism.inter.broker.protocol"
SECRET = "zookeeper.set.acl is not true: each reader of ZooKeeper learns the brokers' secret and may then do everything"


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ({}, False),
        ({"listeners": "SASL_SSL://:1"}, True),
        ({"listeners": "SSL://:1", "ssl.client.auth": "required"}, True),
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, True),
        ({"listeners": "SASL_SSL://:1", "zookeeper.set.acl": "true"}, False),
        ({"listeners": "SSL://:1", "ssl.client.auth": "required", "security.inter.broker.protocol": "SSL"}, False),
        ({"listeners": "SASL_SSL://:1", "ssl.client.auth": "required", "inter.broker.listener.name": "SASL_SSL"}, True),
        ({"listeners": "SASL_SSL://:1", OF_SASL: "required", "inter.broker.listener.name": "SASL_SSL"}, False),
        ({"listeners": "SASL_SSL://:1", "inter.broker.listener.name": "SASL_SSL", BETWEEN: "GSSAPI"}, False),
    ],
)
def test_a_peer_secret_that_zookeeper_shows_everybody_is_reported_if_security_is_set(
    more: dict[str, str], is_told: bool
) -> None:
    assert (SECRET in of_settings(BrokerConfig({"zookeeper.connect": "a:1", **more}))) is is_told
    without = {name: text for name, text in more.items() if not name.startswith("zookeeper.")}
    assert SECRET not in of_settings(BrokerConfig(without))
