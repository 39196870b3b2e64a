"""The suite of several brokers: ``python -m conformance.bench --suite cluster``.

Three brokers, replication factor 3, acks=all: ours under one supervisor, and three real Kafkas.
"""

from __future__ import annotations

import time

from conformance.bench.cases import QUICK
from conformance.bench.cluster.kills import failover, failover_on_zookeeper
from conformance.bench.cluster.load import replicate, write
from conformance.bench.cluster.people import crowd
from conformance.bench.cluster.trio import KINDS, Trio
from conformance.bench.cluster.width import many_partitions

COLD = (replicate, crowd, failover, failover_on_zookeeper, many_partitions)
WARM = (replicate, crowd)

__all__ = ["COLD", "KINDS", "WARM", "crowd", "failover", "many_partitions", "replicate", "warm_up"]


def warm_up(trio: Trio, seconds: float) -> None:
    """Runs load until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        write(trio, QUICK)
