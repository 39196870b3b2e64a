"""What the controller decides about configurations."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pybroker.cluster.decisions.config_changes import (
    ConfigChange,
    ConfigController,
    ConfigOperation,
    KeyChange,
)
from pybroker.cluster.metadata import journal
from pybroker.cluster.metadata.image import MetadataImage, ResourceType, TopicImage
from pybroker.config import BrokerConfig
from pybroker.store.interface import Create, Set
from pyclient.protocol import errors

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP

decider = ConfigController(BrokerConfig({}), node_id=1)


def image_of(
    topic: Mapping[str, str] | None = None, broker: Mapping[str, str] | None = None
) -> MetadataImage:
    return MetadataImage(
        topics={"t": TopicImage("t", b"t" * 16, (), topic or {})},
        resource_configs={(BROKER, "1"): broker} if broker else {},
    )


def change(
    kind: int, name: str, *keys: tuple[str, int, str | None], replace: bool = False
) -> ConfigChange:
    return ConfigChange(kind, name, tuple(KeyChange(*key) for key in keys), replace)


def configs_after(image: MetadataImage, wanted: ConfigChange) -> Mapping[str, str]:
    plan = decider.alter(image, [wanted])
    assert plan.results == [None]
    kind = ResourceType(wanted.resource_type)
    return image.apply(plan.steps[0].delta).configs(kind, wanted.name)


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        ({}, [("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("retention.ms", DELETE, None)], {}),
        ({}, [("no.such.key", DELETE, None)], {}),
        ({}, [("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            [("cleanup.policy", APPEND, "compact")],
            {"cleanup.policy": "compact"},
        ),
        (
            {"cleanup.policy": "compact,delete"},
            [("cleanup.policy", SUBTRACT, "delete")],
            {"cleanup.policy": "compact"},
        ),
        (
            {"segment.ms": "7"},
            [("retention.ms", SET, "5"), ("segment.ms", DELETE, None)],
            {"retention.ms": "5"},
        ),
    ],
)
def test_configuration_keys_are_set_deleted_appended_to_and_subtracted_from(
    before: dict[str, str], keys: list[tuple[str, int, str | None]], after: dict[str, str]
) -> None:
    assert configs_after(image_of(before), change(TOPIC, "t", *keys)) == after


def test_replacing_a_configuration_deletes_the_keys_that_are_not_named() -> None:
    image = image_of({"segment.ms": "7", "retention.ms": "9"})
    wanted = change(TOPIC, "t", ("retention.ms", SET, "5"), replace=True)
    assert configs_after(image, wanted) == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (change(TOPIC, "t", ("retention.ms", SET, "x")), errors.InvalidConfig),
        (change(TOPIC, "t", ("segment.bytes", SET, "1")), errors.InvalidConfig),
        (change(TOPIC, "t", ("no.such.key", SET, "x")), errors.InvalidConfig),
        (change(TOPIC, "t", ("retention.ms", APPEND, "5")), errors.InvalidConfig),
        (change(TOPIC, "t", ("no.such.key", APPEND, "5")), errors.InvalidConfig),
        (change(TOPIC, "t", ("cleanup.policy", APPEND, "x")), errors.InvalidConfig),
        (change(TOPIC, "t", ("retention.ms", SET, None)), errors.InvalidRequest),
        (change(TOPIC, "t", ("retention.ms", 9, "5")), errors.InvalidRequest),
        (
            change(TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
            errors.InvalidRequest,
        ),
        (change(TOPIC, "u", ("retention.ms", SET, "5")), errors.UnknownTopicOrPartition),
        (change(TOPIC, ""), errors.InvalidRequest),
        (change(TOPIC, "a/b"), errors.InvalidTopicException),
        (change(BROKER, "1", ("num.partitions", SET, "5")), errors.InvalidRequest),
        (change(BROKER, "1", ("no.such.key", SET, "5")), errors.InvalidRequest),
        (change(BROKER, "1", ("log.retention.ms", SET, "x")), errors.InvalidRequest),
        (change(BROKER, "", ("cordoned.log.dirs", SET, "/x")), errors.InvalidRequest),
        (change(BROKER, "2", ("log.retention.ms", SET, "5")), errors.InvalidRequest),
        (change(BROKER, "1", ("min.insync.replicas", SET, "2")), errors.InvalidRequest),
        (change(BROKER, "x", ("log.retention.ms", SET, "5")), errors.InvalidRequest),
        (change(GROUP, "g", ("consumer.session.timeout.ms", SET, "5")), errors.InvalidConfig),
        (change(GROUP, ""), errors.InvalidRequest),
        (change(77, "x"), errors.InvalidRequest),
        (change(ResourceType.BROKER_LOGGER, "1"), errors.InvalidRequest),
    ],
)
def test_an_invalid_change_is_refused_and_not_written(
    wanted: ConfigChange, error: type[errors.KafkaError]
) -> None:
    plan = decider.alter(image_of(), [wanted])
    assert isinstance(plan.results[0], error)
    assert plan.steps == []


def test_a_config_change_that_names_a_resource_twice_is_refused() -> None:
    wanted = change(TOPIC, "t", ("retention.ms", SET, "5"))
    outcomes = decider.alter(image_of(), [wanted, wanted]).results
    assert [type(outcome) for outcome in outcomes] == [errors.InvalidRequest] * 2


def test_valid_config_changes_are_one_write_and_invalid_ones_are_errors() -> None:
    plan = decider.alter(
        image_of(),
        [
            change(BROKER, "1", ("log.retention.ms", SET, "5")),
            change(TOPIC, "u"),
            change(BROKER, "", ("log.retention.ms", SET, "6")),
        ],
    )
    assert [type(outcome) for outcome in plan.results] == [
        type(None),
        errors.UnknownTopicOrPartition,
        type(None),
    ]
    [step] = plan.steps
    assert [op.path for op in step.operations] == ["/config/brokers/1", "/config/brokers/<default>"]


def test_thousands_of_resources_take_several_writes_each_small_enough_for_zookeeper() -> None:
    names = [f"group-{number:04}" + "x" * 240 for number in range(4_000)]
    wanted = [change(GROUP, name, ("consumer.session.timeout.ms", SET, "50000")) for name in names]
    plan = decider.alter(image_of(), wanted)
    assert plan.results == [None] * len(names)
    assert len(plan.steps) > 1
    image = image_of()
    for step in plan.steps:
        written = sum(len(op.path) + len(op.data) for op in step.operations if isinstance(op, Create))
        assert written + len(journal.encode(step.delta, image, 1)) < 500_000
        image = image.apply(step.delta)
    assert all(image.configs(GROUP, name) for name in names)


def test_a_stored_configuration_is_overwritten_and_a_new_one_is_created() -> None:
    wanted = change(BROKER, "1", ("log.retention.ms", SET, "5"))
    [fresh] = decider.alter(image_of(), [wanted]).steps
    assert isinstance(fresh.operations[0], Create)
    [again] = decider.alter(image_of(broker={"log.retention.ms": "4"}), [wanted]).steps
    assert isinstance(again.operations[0], Set)


def test_a_read_only_key_that_is_stored_already_does_not_block_other_changes() -> None:
    image = image_of(broker={"num.partitions": "5"})
    wanted = change(BROKER, "1", ("log.retention.ms", SET, "5"))
    assert configs_after(image, wanted)["log.retention.ms"] == "5"
