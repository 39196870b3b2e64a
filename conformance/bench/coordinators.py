"""The suite of the coordinators: ``python -m conformance.bench --suite coordinators``."""

from __future__ import annotations

import time

from conformance.bench.cases import QUICK, Case
from conformance.bench.group_requests import commits, consumer_heartbeats, heartbeats, joins
from conformance.bench.large_group import classic_rebalance, consumer_rebalance
from conformance.bench.transactions import transactions
from harness.servers.brokers import Broker

REQUESTS: tuple[Case, ...] = (commits, heartbeats, consumer_heartbeats, joins, transactions)
#: Cases that run once, after the broker has served the others.
LARGE: tuple[Case, ...] = (classic_rebalance, consumer_rebalance)


def warm_up(broker: Broker, seconds: float) -> None:
    """Sends requests of every kind until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for case in REQUESTS:
            case(broker, QUICK)
