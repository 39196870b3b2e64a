"""S31, S34, S45 and S93 on three brokers that fail: nothing acked is lost, and the replicas end as the same bytes.

The test prints the seed of its faults; ``PYBROKER_SEED=…`` repeats them, but not the processes' timing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.faults.campaigns.cluster import PLACES, Plan, long_plan
from conformance.faults.loads import sdk_load
from conformance.faults.loads.sdk_load import GROUPS, READERS, Worker
from conformance.faults.test_kill import seed

__all__ = ["seed"]
pytestmark = [pytest.mark.ours, pytest.mark.nightly]


def test_s31_torn_tails_and_kills_of_all_brokers_lose_no_acknowledged_record(tmp_path: Path, seed: int) -> None:
    script = ("torn tails",)  # The fixture kills all of them at the end anyway.
    writers = {"threads": Worker("send", 1_000, 2, {"compression_type": "lz4"})}
    groups = {"consumer": GROUPS["consumer"]}
    few = sdk_load.Plan(15_000, len(script), writers=writers, readers={"reader": READERS["reader"]}, groups=groups)
    plan = Plan(few.records, few.faults, writers=("confluent",), applications=(), streams=few, script=script)
    with PLACES["processes"](tmp_path, seed, plan) as campaign:
        report = campaign.run()
    assert not report.anomalies, report


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("place", sorted(PLACES))
def test_s31_faults_of_every_kind_lose_no_acknowledged_record(tmp_path: Path, seed: int, place: str) -> None:
    plan = long_plan(2_000_000, 60, 10.0, ("confluent", "aiokafka", "java", "pyclient"))
    with PLACES[place](tmp_path, seed, plan) as campaign:
        report = campaign.run()
    print(report)
    assert not report.anomalies, report
