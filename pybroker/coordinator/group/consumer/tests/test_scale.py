"""A large group: how many bytes are written, and how many heartbeats are needed. The tests read no clock."""

from __future__ import annotations

from pybroker.coordinator.group.consumer.settings import Pace
from pybroker.coordinator.group.consumer.tests.driver import Client, Driver, image_of

MEMBERS = 300
PARTITIONS = 1_500


def test_hundreds_of_members_share_evenly_after_one_assignment_and_two_heartbeats_each() -> None:
    driver = Driver(image_of(t=PARTITIONS), pace=Pace(assignment_interval_ms=1_000))
    clients = [Client(driver, f"m{number}").come() for number in range(MEMBERS)]
    written = len(driver.log)
    assert written <= 3 * MEMBERS + 3, "a join writes the member, an epoch and what it has"
    driver.pass_ms(1_000)
    for _ in range(2):
        for client in clients:
            client.beat()
    for client in clients:
        client.beat()
    assert driver.consumers().state == "Stable"
    assert {len(client.has["t"]) for client in clients} == {PARTITIONS // MEMBERS}
    assert len(driver.log) - written <= 3 * MEMBERS + 3
    settled = len(driver.log)
    for client in clients:
        client.beat()
    assert len(driver.log) == settled
