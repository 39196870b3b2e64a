"""Cuts, loses, delays and resets connections: cases 30, 31 and 48. The idempotent producer notices nothing."""

from __future__ import annotations

import random
import threading

import pytest

from conformance.drivers.base import Place
from conformance.faults.checkers.history import PartitionHistory
from conformance.faults.loads.load import IdempotentWriter, read_back
from harness.faults.proxy import FaultProxy
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly
PLACE = Place("t", 0)


def write_through(broker: Broker, proxy: FaultProxy, fault: threading.Thread) -> PartitionHistory:
    """Writes during the faults and a while longer."""
    told = PartitionHistory()
    writer = IdempotentWriter(broker, "writer", 0, {PLACE: told}, bootstrap_servers=proxy.bootstrap)
    writer.start()
    fault.start()
    fault.join()
    proxy.heal()
    writer.goes_on(writer.done + 100)
    writer.stop()
    return told


def test_case_48_requests_cut_at_any_byte_append_and_lose_nothing(
    proxied: tuple[Broker, FaultProxy],
) -> None:
    broker, proxy = proxied
    chance = random.Random(48)

    def cut() -> None:
        proxy.cut_produces([chance.randint(1, 400) for _ in range(25)])
        until(lambda: proxy.cuts == 25, "25 cuts")

    told = write_through(broker, proxy, threading.Thread(target=cut))
    assert told.check(read_back(broker, PLACE)) == []


def test_case_30_slow_and_reset_connections_lose_and_duplicate_nothing(
    proxied: tuple[Broker, FaultProxy],
) -> None:
    broker, proxy = proxied
    chance = random.Random(30)

    def disturb() -> None:
        for _ in range(20):
            proxy.delay_s = chance.choice((0.0, 0.02, 0.1))
            threading.Event().wait(chance.uniform(0.02, 0.2))
            proxy.cut()

    told = write_through(broker, proxy, threading.Thread(target=disturb))
    assert told.check(read_back(broker, PLACE)) == []


def test_case_31_consecutive_lost_acks_lose_and_duplicate_nothing(proxied: tuple[Broker, FaultProxy]) -> None:
    broker, proxy = proxied

    def lose() -> None:
        proxy.lose_replies(every=2, count=20)
        until(lambda: len(proxy.lost) == 20, "20 lost acks")

    told = write_through(broker, proxy, threading.Thread(target=lose))
    assert told.check(read_back(broker, PLACE)) == []
