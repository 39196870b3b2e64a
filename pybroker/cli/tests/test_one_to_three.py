"""One broker grows to three. Its old topics, internal ones too, are reported to have one replica, and get three."""

from __future__ import annotations

from pathlib import Path

import pytest

import pybroker
from pybroker.cli.tests.running import Shell
from pybroker.tests.waiting import until

pytestmark = pytest.mark.nightly


def test_the_topics_of_a_broker_that_became_three_get_replicas_by_the_command_that_health_names(tmp_path: Path) -> None:
    with pybroker.run(data_dir=str(tmp_path), offsets_topic_num_partitions=3) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.done("produce", "flights", "--value", "UA")
        shell.done("consume", "flights", "-g", "readers", "--from", "earliest", "-n", 1)
    with pybroker.run(processes=3, data_dir=str(tmp_path), default_replication_factor=3) as brokers:
        shell = Shell(brokers.bootstrap_servers)
        told = shell.done("cluster", "health", "-o", "jsonl").documents
        assert [each["where"] for each in told] == ["flights-0 and 3 more, of 2 topics"]
        assert "`pybroker partition reassign --all --replicas 3`" in told[0]["what"]
        planned = shell.done("partition", "reassign", "--all", "--replicas", 3)
        assert "__consumer_offsets" in planned.out
        shell.done("partition", "reassign", "--all", "--replicas", 3, "--execute")
        until(lambda: shell.done("cluster", "health").out == "")
        assert "nothing to move" in shell.done("partition", "reassign", "--all", "--replicas", 2).err, "it takes none"
        assert "name the partitions" in shell.refused("partition", "reassign", code=2)
