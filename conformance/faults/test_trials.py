"""Each trial finds nothing on brokers that keep their promises.

``proofs/defects/suites.py`` runs it on brokers with planted defects, which reach the brokers through this process's
environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.faults.trials import scripts

pytestmark = pytest.mark.ours
#: This trial represents all of them in a nightly run.
SHORT_TRIALS = ("frozen followers",)


def chosen(names: list[str]) -> list[object]:
    return [name if name in SHORT_TRIALS else pytest.param(name, marks=pytest.mark.campaign) for name in names]


@pytest.mark.nightly
@pytest.mark.parametrize("name", chosen(sorted(scripts.TRIALS)))
def test_a_trial_finds_no_anomaly(name: str, tmp_path: Path) -> None:
    anomalies = scripts.run(name, tmp_path)
    assert not anomalies, "\n".join(f"found {anomaly}" for anomaly in anomalies)
