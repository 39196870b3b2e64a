"""What ``cluster health`` and ``kafka-topics`` report as unhealthy, for clusters that one broker cannot show."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli.cluster import command as cluster_verbs
from pybroker.cli.cluster.command import (
    DEFAULT_FACTOR,
    Trouble,
    controller_troubles,
    health,
    log_dir_troubles,
    partition_troubles,
    replica_troubles,
)
from pybroker.cli.common import cluster_options
from pybroker.cli.kafka.topics import REPORTS, is_troubled
from pybroker.cli.partition import partition as partitions_of
from pyclient.admin import ConfigResource, ResourceType, Results
from pyclient.admin.types import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ConfigSource,
    LogDirDescription,
    PartitionDescription,
    TopicDescription,
)
from pyclient.errors import ConnectionFailed, UnsupportedByBroker, by_code
from pyclient.protocol.errors import KafkaStorageError

STORAGE_ERROR = KafkaStorageError.code
WHERE = "t-0 and 1 more, of 1 topic"


class Cluster:
    """A fake Admin that describes this cluster."""

    def __init__(
        self, *partitions: PartitionDescription, controller: int = 1, dirs: Any = None, min_isr: str = "1"
    ) -> None:
        self.partitions = partitions
        self.controller = controller
        self.dirs = dirs or {}
        self.min_isr = min_isr
        self.factor = "1"
        self.brokers: tuple[int, ...] = (1, 2)
        self.fenced: tuple[int, ...] | None = ()
        self.source = ConfigSource.DYNAMIC_TOPIC_CONFIG

    def describe_cluster(self, include_fenced: bool = False) -> ClusterDescription:
        brokers = tuple(BrokerDescription(each, "localhost", 9092, None) for each in self.brokers)
        if include_fenced:
            if self.fenced is None:
                raise UnsupportedByBroker
            brokers += tuple(BrokerDescription(each, "", -1, None, True) for each in self.fenced)
        return ClusterDescription("c", self.controller, brokers)

    def describe_configs(
        self, resources: list[ConfigResource], *, keys: list[str], check: bool
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        [key] = keys
        if key == DEFAULT_FACTOR:
            wanted = ConfigEntry(key, self.factor, ConfigSource.STATIC_BROKER_CONFIG, False, False)
            return Results({each: {key: wanted} for each in resources})
        entry = ConfigEntry(key, self.min_isr, self.source, False, False)
        of_leader = ConfigEntry(key, "2", ConfigSource.STATIC_BROKER_CONFIG, False, False)
        return Results({each: {key: entry if each.type is ResourceType.TOPIC else of_leader} for each in resources})

    def list_topics(self, *, list_internal: bool) -> list[str]:
        return ["t"]

    def describe_topics(self, names: list[str]) -> dict[str, TopicDescription]:
        return {"t": TopicDescription("t", "id", False, self.partitions)}

    def describe_log_dirs(self, brokers: list[int], *, timeout: float) -> dict[int, Results[str, LogDirDescription]]:
        [broker] = brokers
        if broker == 2:
            raise ConnectionFailed("localhost:9092", "connect")
        return {1: self.dirs}


def test_health_uses_the_leaders_min_insync_replicas() -> None:
    """Another broker, which answers for the topic, may have other settings."""
    cluster = Cluster(partition(1, (1, 2), (1,)), min_isr="1")
    cluster.source = ConfigSource.DEFAULT_CONFIG
    [trouble] = partition_troubles(cluster)  # type: ignore[arg-type]
    assert trouble.severity == "error"
    assert "min.insync.replicas is 2" in trouble.what


def test_partitions_in_trouble_are_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*partitions: PartitionDescription) -> Any:
        monkeypatch.setattr(cluster_options.Cluster, "admin", lambda self: nullcontext(Cluster(*partitions)))
        arguments = ["under-replicated", "-b", "localhost:9092"]
        return CliRunner().invoke(partitions_of, arguments, standalone_mode=False).return_value

    assert ended(partition(1, (1, 2), (1, 2))) == 0
    assert ended(partition(1, (1, 2), (1,))) == 1


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(0, leader, 5, replicas, isr, ())


@pytest.mark.parametrize(
    ("found", "troubles"),
    [
        (partition(1, (1, 2), (1, 2)), []),
        (partition(-1, (1, 2), (2,)), [Trouble("error", "no leader; last in sync: 2", "t-0")]),
        (
            partition(1, (1, 2, 3), (1,)),
            [Trouble("warning", "is not there", "broker 3"), Trouble("warning", "not in sync: 2, 3", "t-0")],
        ),
        (partition(2, (1, 2), (1, 2)), [Trouble("warning", "broker 2 leads instead of 1", "t-0")]),
    ],
)
def test_partitions_in_trouble_say_what_they_lack(found: PartitionDescription, troubles: list[Trouble]) -> None:
    assert list(partition_troubles(Cluster(found))) == troubles  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fenced", "found"),
    [((), []), (None, []), ((4,), [Trouble("warning", "is not there, and has no partitions", "broker 4")])],
)
def test_an_absent_broker_without_partitions_is_reported(
    monkeypatch: pytest.MonkeyPatch, fenced: tuple[int, ...] | None, found: list[Trouble]
) -> None:
    """It is a warning in every output format, and not a failure: records can be written and read."""
    cluster = Cluster(partition(1, (1, 2), (1, 2)), dirs=Results())
    cluster.fenced = fenced
    monkeypatch.setattr(cluster_options.Cluster, "admin", lambda self: nullcontext(cluster))
    monkeypatch.setattr(cluster_verbs, "log_dir_troubles", lambda admin: ())
    runner = CliRunner()
    ended = runner.invoke(health, ["-b", "localhost:9092", "-o", "json"], standalone_mode=False)
    assert json.loads(ended.output) == [each._asdict() for each in found]
    assert ended.return_value == 0
    shown = runner.invoke(health, ["-b", "localhost:9092"], standalone_mode=False).output
    assert ("all is well" in shown) == (not found)


@pytest.mark.parametrize(
    ("leader", "words"),
    [(3, "no leader: broker 3"), (1, "acks=all waits for in-sync replicas on absent brokers: 3")],
)
def test_a_partition_counting_an_absent_broker_is_an_error(leader: int, words: str) -> None:
    _, trouble = partition_troubles(Cluster(partition(leader, (3, 1, 2), (3, 1, 2))))  # type: ignore[arg-type]
    assert trouble.severity == "error"
    assert words in trouble.what


def test_partitions_with_the_same_trouble_share_a_row() -> None:
    found = Cluster(*(partition(2, (1, 2), (1, 2))._replace(partition=number) for number in range(3)))
    assert list(partition_troubles(found)) == [  # type: ignore[arg-type]
        Trouble("warning", "broker 2 leads instead of 1", "t-0 and 2 more partitions")
    ]


@pytest.mark.parametrize(
    ("brokers", "factor", "replicas", "words"),
    [
        ((1,), "3", (1,), None),  # a lone broker, which other brokers will join
        ((1, 2, 3), "1", (1,), "1 replica: it ends with its broker; `pybroker partition reassign --all --replicas 2`"),
        ((1, 2, 3), "3", (1, 2), "2 replicas of 3; `pybroker partition reassign --all --replicas 3`"),
        ((1, 2), "3", (1, 2), None),  # there is no broker for a third replica
        ((1, 2, 3), "3", (1, 2, 3), None),
    ],
)
def test_too_few_replicas_are_reported_with_the_remedy(
    brokers: tuple[int, ...], factor: str, replicas: tuple[int, ...], words: str | None
) -> None:
    cluster = Cluster(partition(1, replicas, replicas), partition(1, replicas, replicas)._replace(partition=1))
    cluster.brokers, cluster.factor = brokers, factor
    found = list(replica_troubles(cluster))  # type: ignore[arg-type]
    assert [(each.severity, each.where) for each in found] == ([] if words is None else [("warning", WHERE)])
    assert words is None or found[0].what.startswith(words)


@pytest.mark.parametrize(("isr", "severity"), [((1,), "error"), ((1, 2), "warning")])
def test_a_partition_that_refuses_acks_all_is_an_error(isr: tuple[int, ...], severity: str) -> None:
    found = Cluster(partition(1, (1, 2, 3), isr), min_isr="2")
    _, trouble = partition_troubles(found)  # type: ignore[arg-type]
    assert trouble.severity == severity
    assert ("acks=all is refused: 1 in sync, min.insync.replicas is 2" in trouble.what) == (severity == "error")


def test_a_cluster_without_a_controller_is_an_error() -> None:
    assert [each.severity for each in controller_troubles(Cluster(controller=-1))] == ["error"]  # type: ignore[arg-type]
    assert list(controller_troubles(Cluster())) == []  # type: ignore[arg-type]


def test_log_dirs_that_are_offline_or_nearly_full_are_reported() -> None:
    storage_error = by_code(STORAGE_ERROR)
    assert storage_error is not None
    full = LogDirDescription("/full", {}, 100 << 20, 1 << 20, False)
    fine = LogDirDescription("/fine", {}, 100 << 20, 50 << 20, False)
    silent = LogDirDescription("/old", {}, -1, -1, False)
    dirs = Results({each.path: each for each in (full, fine, silent)}, {"/gone": storage_error()})
    assert list(log_dir_troubles(Cluster(dirs=dirs))) == [  # type: ignore[arg-type]
        Trouble("error", "log dir is offline: KAFKA_STORAGE_ERROR", "broker 1: /gone"),
        Trouble("warning", "1 MiB are free", "broker 1: /full"),
        Trouble("error", "does not answer: CONNECTION_FAILED", "broker 2"),
    ]


@pytest.mark.parametrize(
    ("found", "reports"),
    [
        (partition(1, (1, 2), (1, 2)), {"at_min_isr_partitions"}),
        (partition(1, (1, 2), (1,)), {"under_replicated_partitions", "under_min_isr_partitions"}),
        (
            partition(-1, (1, 2), ()),
            {"under_replicated_partitions", "unavailable_partitions", "under_min_isr_partitions"},
        ),
        (partition(1, (1, 2, 3), (1, 2, 3)), set()),
    ],
)
def test_a_partition_is_in_the_same_reports_as_in_kafka(found: PartitionDescription, reports: set[str]) -> None:
    assert {name for name in REPORTS if is_troubled(found, {name}, 2)} == reports
