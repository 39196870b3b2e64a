"""What ``cluster health`` and ``kafka-topics`` call trouble: of clusters that one broker cannot show."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.cli.cluster import Trouble, controller_troubles, log_dir_troubles, partition_troubles
from pybroker.cli.kafka.topics import REPORTS, is_troubled
from pyclient.admin import Results
from pyclient.admin.types import (
    ClusterDescription,
    LogDirDescription,
    PartitionDescription,
    TopicDescription,
)
from pyclient.errors import by_code

STORAGE_ERROR = 56


class Cluster:
    """Says what an Admin would say."""

    def __init__(self, *partitions: PartitionDescription, controller: int = 1, dirs: Any = None) -> None:
        self.partitions = partitions
        self.controller = controller
        self.dirs = dirs or {}

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", self.controller, ())

    def list_topics(self, *, list_internal: bool) -> list[str]:
        return ["t"]

    def describe_topics(self, names: list[str]) -> dict[str, TopicDescription]:
        return {"t": TopicDescription("t", "id", False, self.partitions)}

    def describe_log_dirs(self) -> dict[int, Results[str, LogDirDescription]]:
        return {1: self.dirs}


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(0, leader, 5, replicas, isr, ())


@pytest.mark.parametrize(
    ("found", "troubles"),
    [
        (partition(1, (1, 2), (1, 2)), []),
        (partition(-1, (1, 2), ()), [Trouble("error", "no leader", "t-0")]),
        (partition(1, (1, 2, 3), (1,)), [Trouble("warning", "not in sync: 2, 3", "t-0")]),
        (partition(2, (1, 2), (1, 2)), [Trouble("warning", "broker 2 leads instead of 1", "t-0")]),
    ],
)
def test_partitions_in_trouble_are_told_by_what_they_lack(found: PartitionDescription, troubles: list[Trouble]) -> None:
    assert list(partition_troubles(Cluster(found))) == troubles  # type: ignore[arg-type]


def test_a_cluster_without_a_controller_is_an_error() -> None:
    assert [each.severity for each in controller_troubles(Cluster(controller=-1))] == ["error"]  # type: ignore[arg-type]
    assert list(controller_troubles(Cluster())) == []  # type: ignore[arg-type]


def test_log_dirs_that_are_offline_or_nearly_full_are_told() -> None:
    storage_error = by_code(STORAGE_ERROR)
    assert storage_error is not None
    full = LogDirDescription("/full", {}, 100 << 20, 1 << 20, False)
    fine = LogDirDescription("/fine", {}, 100 << 20, 50 << 20, False)
    silent = LogDirDescription("/old", {}, -1, -1, False)
    dirs = Results({each.path: each for each in (full, fine, silent)}, {"/gone": storage_error()})
    assert list(log_dir_troubles(Cluster(dirs=dirs))) == [  # type: ignore[arg-type]
        Trouble("error", "log dir is offline: KAFKA_STORAGE_ERROR", "broker 1: /gone"),
        Trouble("warning", "1 MiB are free", "broker 1: /full"),
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
def test_a_partition_is_in_the_reports_that_kafka_puts_it_in(found: PartitionDescription, reports: set[str]) -> None:
    assert {name for name in REPORTS if is_troubled(found, {name}, 2)} == reports
