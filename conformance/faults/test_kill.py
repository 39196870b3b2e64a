"""kill -9 under load: cases 1, 2, 4, 5, 31, 42 and S80. What was acked stays, once, in order; nothing is taken back.

The test prints the seed of its moments; ``PYBROKER_SEED=…`` repeats them, but not the threads' timing.
"""

from __future__ import annotations

import os
import random

import pytest

from conformance.conftest import NewBroker
from conformance.data import batches
from conformance.faults.campaigns.kills import Campaign
from harness.protocol.wire_client import Wire
from harness.waiting import until

pytestmark = pytest.mark.nightly


@pytest.fixture
def seed() -> int:
    found = int(os.environ.get("PYBROKER_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"PYBROKER_SEED={found}")
    return found


@pytest.mark.ours
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=[pytest.mark.campaign, pytest.mark.timeout(1_800)])])
def test_case_1_kills_at_random_moments_lose_and_duplicate_no_acknowledged_record(
    new_broker: NewBroker, seed: int, kills: int
) -> None:
    report = Campaign(new_broker(start=False), seed).run(kills)
    print(report)
    assert not report.anomalies, report


@pytest.mark.ours
def test_case_5_a_killed_start_leaves_no_clean_shutdown_file(new_broker: NewBroker) -> None:
    """After a controlled stop, a start that is killed at once still counts as a crash for the next one."""
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        wire.produce("t", batches.batch([b"x"]))
    broker.stop()
    mark = broker.log_dir / ".kafka_cleanshutdown"
    assert mark.exists()
    broker.start(wait=False)
    until(lambda: not mark.exists(), "the mark to go")
    broker.kill()
    assert not mark.exists()
    broker.start()
    with Wire(broker.address) as wire:
        assert wire.end_offset("t") == 1
