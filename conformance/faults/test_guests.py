"""S112 on three brokers that are secured everywhere: a right counts when it is answered, whatever fails meanwhile.

The broker that answers a change applies it at once, also on open connections. Brokers die, and their certificate
changes. The campaign is the long form (``tox -e campaign -- secured``).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conformance.faults.loads.cluster_target import EAGER, ClusterTarget
from conformance.faults.loads.guests import Guests
from conformance.faults.means.secured import Secured, running
from conformance.faults.test_kill import seed
from harness.servers.clusters import Cluster, consecutive_ports

__all__ = ["seed"]
pytestmark = [pytest.mark.ours, pytest.mark.nightly]
VISITS = 10


def test_s112_clients_have_access_only_as_long_as_it_is_granted(tmp_path: Path, seed: int) -> None:
    secured, chance = Secured(tmp_path / "secured"), random.Random(seed)
    cluster = Cluster(tmp_path / "data", 3, None, **{**EAGER, **secured.config("127.0.0.1")})
    cluster.ports = {1: consecutive_ports(3)}
    with running(cluster, secured):
        guests = Guests(ClusterTarget(cluster), secured, seed)
        guests.begin()
        for broker in cluster.ids:
            cluster.kill(broker)
            cluster.revive(broker)
            secured.change(cluster, chance)
            guests.goes_on(guests.done)
        guests.goes_on(VISITS)
        guests.stop()
        guests.target.heal()
        count, anomalies = guests.check()
    assert not anomalies, "\n".join(f"found {anomaly}" for anomaly in anomalies)
    assert count > VISITS, "what guests may write is written"
