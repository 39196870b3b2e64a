"""Rebalances: the state that survives them, and the calls of the listener."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pyclient import Admin, Consumer, TopicPartition
from pyclient.consumer import RebalanceListener
from pyclient.tests.brokers import Broker, broker, unique  # noqa: F401
from pyclient.tests.support import until

QUICK = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, "fetch_max_wait_ms": 50}


class Assigned(RebalanceListener):
    """A listener that only implements ``on_partitions_assigned``."""

    def __init__(self) -> None:
        self.seen: list[TopicPartition] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.seen += sorted(partitions)


class Revoked(RebalanceListener):
    """A listener that treats lost partitions like revoked ones."""

    def __init__(self) -> None:
        self.seen: list[TopicPartition] = []

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.seen += sorted(partitions)


def test_a_listener_without_the_required_methods_is_refused() -> None:
    place = TopicPartition("t", 0)
    told, assigned = Revoked(), Assigned()
    for listener in (told, assigned):
        listener.on_partitions_assigned([place])
        listener.on_partitions_lost([place])
    assert told.seen == assigned.seen == [place]


@pytest.mark.parametrize(
    "settings",
    [{"group_protocol": "consumer"}, {"partition_assignment_strategy": "range"},
     {"partition_assignment_strategy": "cooperative-sticky"}],
    ids=["consumer", "eager", "cooperative"],
)  # fmt: skip
def test_partitions_kept_in_a_rebalance_stay_paused(broker: Broker, settings: dict[str, str]) -> None:  # noqa: F811
    topic = unique("paused")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(topic, num_partitions=4, replication_factor=1)
    group = {"group_id": unique("g"), **QUICK, **settings}
    told = Assigned()
    with Consumer(broker.bootstrap, **group) as first, Consumer(broker.bootstrap, **group) as second:
        first.subscribe([topic], listener=told)
        until(lambda: first.poll(0.05) == [] and len(first.assignment()) == 4, "all partitions")
        first.pause(first.assignment())
        second.subscribe([topic])
        until(lambda: [first.poll(0.05), second.poll(0.05)] and len(second.assignment()) == 2, "an equal share")
        until(lambda: first.poll(0.05) == [] and len(first.assignment()) == 2, "the other share")
        assert first.paused() == first.assignment()
        assert second.paused() == set()
    assert {TopicPartition(topic, number) for number in range(4)} == set(told.seen)
