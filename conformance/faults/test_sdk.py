"""Our SDK under faults of broker, network and clients: no record is lost, doubled or reordered, and memory is bounded.

The test prints the seed of its faults; ``PYBROKER_SEED=…`` repeats them, but not the processes' timing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.conftest import NewBroker
from conformance.faults.campaigns.sdk import Campaign
from conformance.faults.checkers import history
from conformance.faults.loads import sdk_load
from conformance.faults.loads.sdk_load import Plan, Worker
from conformance.faults.test_kill import seed

__all__ = ["seed"]
pytestmark = pytest.mark.nightly


def test_faults_lose_duplicate_and_reorder_no_record(new_broker: NewBroker, tmp_path: Path, seed: int) -> None:
    report = Campaign(new_broker(start=False), seed, Plan(records=60_000, faults=8), tmp_path).run()
    print(report)
    assert not report.anomalies, report


@pytest.mark.campaign
@pytest.mark.timeout(7_200)
def test_ten_million_records_survive_faults(new_broker: NewBroker, tmp_path: Path, seed: int) -> None:
    report = Campaign(new_broker(start=False), seed, Plan(records=10_000_000, faults=400), tmp_path).run()
    print(report)
    assert not report.anomalies, report


def test_a_writer_of_sequences_ends_after_a_single_record(new_broker: NewBroker, tmp_path: Path) -> None:
    """The successor of a writer that was killed at its end has one record left."""
    plan = Plan(1, 0, writers={"many": Worker("send_many", 1_000)}, readers={}, groups={})
    assert not Campaign(new_broker(start=False), 1, plan, tmp_path).run().anomalies


class LostAcks(Campaign):
    """Loses only acks: the first three, because a worker may finish before a fault that waits for acks."""

    def _open(self) -> None:
        self.proxy.lose_replies(count=3)
        super()._open()

    def _strike(self) -> None:
        self._await(lambda: len(self.proxy.lost) == 3, "three lost acks")


def test_the_campaign_detects_duplicates_and_excessive_memory(
    new_broker: NewBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without idempotence, a client resends records whose ack was lost, so they are there twice. The campaign also
    reports a process with too much memory.
    """
    monkeypatch.setattr(sdk_load, "MAX_MEMORY", sdk_load.MIB)
    naive = Worker("send", 1000, settings={"enable_idempotence": False})
    plan = Plan(20_000, 2, writers={"naive": naive}, readers={}, groups={})
    report = LostAcks(new_broker(start=False), 1, plan, tmp_path).run()
    assert {history.DUPLICATE, sdk_load.MEMORY} <= {anomaly.kind for anomaly in report.anomalies}, report
