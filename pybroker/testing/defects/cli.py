"""Defects of the command line."""

from __future__ import annotations

from pybroker.cli import cluster, strays
from pybroker.testing.defects import Patch, defect


@defect("pybroker/cli/tests/test_health.py::test_a_partition_that_has_not_noticed_who_is_not_there_is_an_error")
def a_leader_that_is_not_there_is_healthy() -> list[Patch]:
    """A partition whose leader or ISR is a dead broker's looks as if it took records."""

    trouble_of = cluster.trouble_of

    def all_there(partition, min_isr, there):  # type: ignore[no-untyped-def]
        return trouble_of(partition, min_isr, [partition.leader, *partition.replicas])

    return [(cluster, "trouble_of", all_there)]


@defect(
    "pybroker/cli/tests/test_strays.py"
    "::test_a_log_whose_broker_has_not_heard_that_its_topic_is_lost_is_adopted_with_the_strays"
)
def logs_that_are_not_yet_strays_are_left_behind() -> list[Patch]:
    """A topic comes back without the records of the broker that had most."""
    return [(strays, "not_yet_strays", lambda log_dirs, found: [])]
