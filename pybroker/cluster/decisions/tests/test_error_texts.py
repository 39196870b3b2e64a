"""Kafka's error messages about topics that cannot be created or changed: scripts search for them."""

from __future__ import annotations

import pytest

from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.decisions.tests.test_controller import after, controller, image_of
from pybroker.cluster.metadata.image import MetadataImage


def with_topics(*names: str) -> MetadataImage:
    image = image_of(1)
    return after(image, controller().create_topics(image, [NewTopic(name, 3, 1) for name in names]))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (NewTopic("x"), "Topic 'x' already exists."),
        (NewTopic("a_b"), "Topic 'a_b' collides with existing topic: a.b"),
        (NewTopic("y", 0, 1), "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("y", 1, 0), "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            NewTopic("y", 1, 3),
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
            "because only 1 broker(s) are registered.",
        ),
        (NewTopic(""), "Topic name is invalid: the empty string is not allowed"),
        (NewTopic("."), "Topic name is invalid: '.' is not allowed"),
        (
            NewTopic("n" * 250),
            f"Topic name is invalid: the length of '{'n' * 250}' is longer than the max allowed length 249",
        ),
        (
            NewTopic("a b"),
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
    ],
)
def test_the_refusal_of_an_invalid_topic_has_kafkas_text(wanted: NewTopic, text: str) -> None:
    [outcome] = controller().create_topics(with_topics("x", "a.b"), [wanted]).results
    assert str(outcome) == text


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (NewPartitions("x", 3), "Topic already has 3 partition(s)."),
        (NewPartitions("x", 2), "The topic x currently has 3 partition(s); 2 would not be an increase."),
        (NewPartitions("gone", 5), "This server does not host this topic-partition. There is no topic 'gone'."),
    ],
)
def test_the_refusal_to_add_partitions_has_kafkas_text(wanted: NewPartitions, text: str) -> None:
    [outcome] = controller().create_partitions(with_topics("x"), [wanted]).results
    assert str(outcome) == text


def test_the_refusal_to_delete_a_missing_topic_has_kafkas_text() -> None:
    [outcome] = controller().delete_topics(with_topics("x"), [TopicName("gone", None)]).results
    assert str(outcome).startswith("This server does not host this topic-partition.")
