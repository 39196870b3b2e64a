"""Attacks on groups with members of both protocols."""

from __future__ import annotations

from cy.batch import Builder
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.tests.driver import Client, Driver, image_of
from pybroker.coordinator.group.consumer.tests.test_migration import metadata


def test_a_downgrade_that_is_begun_because_it_fits_does_fit() -> None:
    partitions = 1000
    driver = Driver(image=image_of(t=partitions))
    member = Client(driver, "new", instance_id="i").come("u")
    driver.beat("new", member.epoch, instance_id="i", subscribed_topic_names=["t"], has={})
    assert len(driver.has("new")["t"]) == partitions
    written = len(driver.log)
    driver.largest_batch = 18_000
    assert driver.join(instance="i", protocols={"range": metadata("t")}).code == 0
    batch = Builder()
    for key, value in driver.log[written:]:
        batch.append(0, key, value)
    assert isinstance(driver.shard.groups["g"], ConsumerGroup) or batch.size <= driver.largest_batch
