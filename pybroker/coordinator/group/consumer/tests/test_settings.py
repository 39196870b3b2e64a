"""The settings of consumer groups."""

from __future__ import annotations

import pytest

from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, ResourceType
from pybroker.config import BrokerConfig
from pybroker.coordinator.group.consumer.settings import ConsumerSettings, Pace, Paces


def test_group_settings_have_kafkas_defaults() -> None:
    assert ConsumerSettings.from_config(BrokerConfig({})) == ConsumerSettings()
    assert Paces(BrokerConfig({}), MetadataImage)("g") == Pace()


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("BIDIRECTIONAL", True, True),
    ],
)
def test_the_migration_policy_has_two_directions(policy: str, up: bool, down: bool) -> None:
    settings = ConsumerSettings.from_config(
        BrokerConfig({"group.consumer.migration.policy": policy})
    )
    assert (settings.may_upgrade, settings.may_downgrade) == (up, down)
    assert settings.may_migrate == (up or down)


def test_assignors_may_be_given_by_kafkas_classes() -> None:
    names = "org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform"
    settings = ConsumerSettings.from_config(BrokerConfig({"group.consumer.assignors": names}))
    assert settings.assignors == ("range", "uniform")


def test_a_groups_own_configuration_counts_as_soon_as_it_is_set() -> None:
    image = MetadataImage()
    paces = Paces(BrokerConfig({"group.consumer.heartbeat.interval.ms": "6000"}), lambda: image)
    assert paces("g") == Pace(heartbeat_interval_ms=6_000)
    own = {"consumer.session.timeout.ms": "50000", "consumer.assignment.interval.ms": "0"}
    image = image.apply(MetadataDelta(configs={(ResourceType.GROUP, "g"): own}))
    assert paces("g") == Pace(50_000, 6_000, 0)
    assert paces("other") == Pace(heartbeat_interval_ms=6_000)
