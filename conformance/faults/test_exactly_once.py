"""S45: exactly once under kill -9 of broker and clients, with zombies; cases 31–33, 35, 36 and 38 of the faults.

The test prints the seed of its faults; ``PYBROKER_SEED=…`` repeats them, but not the processes' timing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.conftest import QUICK_GROUPS, NewBroker
from conformance.faults.campaigns.exactly_once import Campaign, Zombies, long_plan
from conformance.faults.loads.transaction_load import Plan
from conformance.faults.test_kill import seed
from harness.servers.brokers import KINDS

__all__ = ["seed"]
pytestmark = pytest.mark.nightly
DRIVERS = ("confluent", "aiokafka", "java")


@pytest.mark.timeout(1_200)
def test_s45_no_transaction_is_lost_torn_duplicated_or_visible_before_its_commit(
    new_broker: NewBroker, tmp_path: Path, seed: int
) -> None:
    report = Campaign(new_broker(start=False), seed, Plan(transactions=500, faults=5), tmp_path).run()
    print(report)
    assert not report.anomalies, report


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("kind", "transactions"), [("ours", 10_000), pytest.param("kafka", 14_000, marks=pytest.mark.campaign)]
)
def test_two_hundred_thousand_records_of_pyclient_exist_once_despite_fenced_producers(
    data_root: Path, tmp_path: Path, seed: int, kind: str, transactions: int
) -> None:
    broker = KINDS[kind](data_root / f"zombies-{kind}", **QUICK_GROUPS)
    try:
        report = Zombies(broker, seed, transactions, faults=40, folder=tmp_path).run()
    finally:
        broker.kill()
    print(report)
    assert report.records >= 200_000
    assert not report.anomalies, report


@pytest.mark.campaign
@pytest.mark.timeout(7_200)
def test_s45_a_hundred_thousand_transactions_survive_two_hundred_faults(
    new_broker: NewBroker, tmp_path: Path, seed: int
) -> None:
    report = Campaign(new_broker(start=False), seed, long_plan(100_000, 200, DRIVERS), tmp_path).run()
    print(report)
    assert not report.anomalies, report
