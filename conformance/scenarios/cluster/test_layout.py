"""Reads the nodes in ZooKeeper by ZooKeeper's own command line client: S96."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

from conformance import drivers
from conformance.scenarios.cluster.brokers import OpenCluster
from harness.clients.librdkafka import write
from harness.protocol.wire_client import Wire
from harness.servers.ensemble import JAR, JVM, Ensemble
from harness.waiting import until

SHELL = "org.apache.zookeeper.ZooKeeperMain"
ROOT = "/kafka"
ANSWER = re.compile(r"[\[{\d].*")


def ask(ensemble: Ensemble, *commands: str) -> list[str]:
    """Returns zkCli.sh's answer to each ``ls`` and ``get``, a line each, without its other output."""
    words = ["java", *JVM, "-cp", str(JAR), SHELL, "-server", ensemble.hosts]
    text = "".join(f"{command}\n" for command in commands)
    done = subprocess.run(words, input=text, capture_output=True, timeout=120, check=True, text=True)
    answers = [line for line in done.stdout.splitlines() if ANSWER.fullmatch(line)]
    assert len(answers) == len(commands), done.stdout + done.stderr
    return answers


def names(answer: str) -> list[str]:
    """Returns the nodes in an answer to ``ls``."""
    return sorted(filter(None, answer.strip("[]").split(", ")))


def is_like(row: Any, **expected: Any) -> bool:
    """Returns whether a row has these members; a callable judges its own member."""
    return all(value(row[key]) if callable(value) else row[key] == value for key, value in expected.items())


digits: Callable[[str], bool] = str.isdigit


def test_s96_brokers_topics_and_controller_are_nodes_of_zookeeper(
    on_zookeeper: OpenCluster, zookeeper: Ensemble, topic: str
) -> None:
    cluster = on_zookeeper
    cluster.place_topic(topic, {0: (1, 2, 3), 1: (2, 3, 1)}, retention_ms=1234567)
    told = ask(
        zookeeper,
        *(f"ls {ROOT}/brokers/ids", f"get {ROOT}/brokers/ids/1", f"get {ROOT}/brokers/topics/{topic}"),
        *(f"ls {ROOT}/brokers/topics/{topic}/partitions", f"get {ROOT}/brokers/topics/{topic}/partitions/1/state"),
        *(f"get {ROOT}/controller", f"get {ROOT}/controller_epoch", f"get {ROOT}/config/topics/{topic}"),
        *(f"get {ROOT}/cluster/id", f"ls {ROOT}/admin"),
    )
    assert names(told[0]) == ["1", "2", "3"]
    broker, described, state, controller = (json.loads(told[place]) for place in (1, 2, 4, 5))
    listener = f"PLAINTEXT://127.0.0.1:{cluster.ports[1]}"
    assert is_like(broker, endpoints=[listener], host="127.0.0.1", port=cluster.ports[1], rack="a", timestamp=digits)
    assert is_like(described, partitions={"0": [1, 2, 3], "1": [2, 3, 1]}, version=3)
    assert names(told[3]) == ["0", "1"]
    assert is_like(state, leader=2, leader_epoch=0, controller_epoch=cluster.epoch(), version=1)
    assert sorted(state["isr"]) == [1, 2, 3]
    assert is_like(controller, brokerid=cluster.controller(), version=1, timestamp=digits)
    assert int(told[6]) == cluster.epoch()
    assert json.loads(told[7])["config"] == {"retention.ms": "1234567"}
    with Wire(cluster.address(1)) as wire:
        assert json.loads(told[8])["id"] == wire.ask("Metadata", 12, topics=[]).cluster_id
    assert "delete_topics" in names(told[9])


def test_s96_members_of_groups_are_nodes_of_zookeeper_as_long_as_they_are_members(
    on_zookeeper: OpenCluster, zookeeper: Ensemble, topic: str, group: str
) -> None:
    cluster = on_zookeeper
    cluster.create_topic(topic, 2, 3)
    write(cluster, topic, [b"x"])
    settings = {"group_id": group, "group_protocol": "classic", "client_id": "reader"}
    with drivers.opened("confluent").consumer(cluster.bootstrap, **settings) as member, cluster.tree() as tree:
        member.subscribe([topic])
        until(lambda: member.poll(0.2), "a record")
        folder = f"/consumers/{group}/ids"
        until(lambda: tree.data(folder) is not None and member.poll(0.1) is not None, "the group's folder")
        [ids] = ask(zookeeper, f"ls {ROOT}{folder}")
        [member_id] = names(ids)
        assert member_id.startswith("reader-")
        [row] = ask(zookeeper, f"get {ROOT}{folder}/{member_id}")
        assert is_like(json.loads(row), version=1, subscription={topic: 1}, pattern="static", timestamp=digits)
        member.close()
        until(lambda: tree.data(folder) is None, "the group's folder to be gone")
