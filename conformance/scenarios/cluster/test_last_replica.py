"""Restarts the last in-sync replica without its disk: S31, S34. Its settings files alone say min.insync.replicas."""

from __future__ import annotations

import shutil
from pathlib import Path

from conformance.drivers.base import Place
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import whole_log
from harness.clients.librdkafka import write
from harness.waiting import until

VALUES = [b"%d" % number for number in range(1000)]


def empty(folder: Path) -> None:
    """Deletes all of a data folder except its lock, which is held."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != ".lock":
            path.unlink()


def test_s31_an_empty_replica_does_not_lead_if_min_insync_replicas_is_two(tmp_path: Path) -> None:
    with OpenCluster(tmp_path / "data", 3, default_replication_factor=3, min_insync_replicas=2) as brokers:
        brokers.place_topic("kept", {0: (3, 1, 2)})
        write(brokers, "kept", VALUES)
        with brokers.locked(2):
            with brokers.locked(1):
                until(lambda: brokers.at("kept", without=1).isr == (3,), "the last one in sync")
                with brokers.locked(3):
                    empty(brokers.log_dir(3))
                brokers.wait_for(3)
                assert brokers.leader("kept") == -1, "it has nothing of what was acknowledged"
            until(lambda: brokers.leader("kept") == 1, "one that has everything")
        brokers.await_sync("kept")
        assert [value for _, value in whole_log(brokers, Place("kept", 0))] == VALUES
        brokers.await_alike("kept")
