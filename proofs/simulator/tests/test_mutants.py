"""Checks that an invariant finds protocols that Kafka once had, and says what is wrong.

The gate runs a sample of what ``test_defects.py`` runs nightly.
"""

from __future__ import annotations

import pytest

from proofs.defects import Defect, all_defects
from proofs.defects.suites import HISTORIES
from proofs.simulator.hunt import find

HISTORIC = {
    "a_follower_begins_at_its_high_watermark": "KIP-101",
    "asks_for_its_own_last_epoch_only": "KIP-279",
    "the_last_replica_in_sync_leads_again": "KIP-966",
    "transactions_share_an_epoch": "KIP-890",
    "a_late_marker_ends_the_next_transaction": "KIP-1228",
}
HISTORIES_MORE = 40
"""More histories to try. If a change of the broker's steps has changed the known ones, a defect still shows in ten or
twenty.
"""
DEFECTS = {each.name: each for each in all_defects() if each.name in HISTORIC and each.test.startswith(HISTORIES)}


@pytest.mark.parametrize("defect", [DEFECTS[name] for name in HISTORIC], ids=HISTORIC.values())
def test_a_broken_protocol_is_detected_within_few_histories(defect: Defect) -> None:
    found = find(defect, HISTORIES_MORE)
    assert found.is_right, found.line()
