"""SCRAM credentials in the metadata: which broker decides, and what is stored."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pybroker.cluster.decisions.scram_changes import ScramChange, ScramUser, alter, users
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import MetadataImage, ResourceType
from pybroker.security.sasl.scram_credentials import from_text
from pybroker.store.interface import Create, Set
from pyclient.protocol import errors, scram

NEW = ScramChange("alice", 1, 4096, b"salt", b"salted")
EMPTY = MetadataImage()


def after(image: MetadataImage, *changes: ScramChange) -> MetadataImage:
    plan = alter(image, changes)
    assert not any(plan.results.values())
    for step in plan.steps:
        image = image.apply(step.delta)
    return image


def refusal(image: MetadataImage, *changes: ScramChange) -> object:
    plan = alter(image, changes)
    assert plan.steps == []
    (error,) = plan.results.values()
    return type(error)


def test_stored_passwords_have_kafkas_form() -> None:
    (step,) = alter(EMPTY, [NEW]).steps
    (write,) = step.operations
    assert isinstance(write, Create)
    assert write.path == "/config/users/alice"
    stored = json.loads(write.data)
    assert stored["version"] == 1
    (text,) = stored["config"].values()
    assert list(stored["config"]) == ["SCRAM-SHA-256"]
    assert from_text(text) == scram.credential(scram.SHA_256, b"salted", b"salt", 4096)


def test_both_mechanisms_of_a_user_are_written_at_once_and_other_settings_stay() -> None:
    image = MetadataImage(resource_configs={(ResourceType.USER, "alice"): {"producer_byte_rate": "1"}})
    plan = alter(image, [NEW, NEW._replace(mechanism=2, iterations=8192)])
    (step,) = plan.steps
    assert isinstance(step.operations[0], Set)
    found = image.apply(step.delta)
    assert users(found) == [ScramUser("alice", {1: 4096, 2: 8192})]
    assert found.configs(ResourceType.USER, "alice")["producer_byte_rate"] == "1"
    gone = after(found, ScramChange("alice", 1), ScramChange("alice", 2))
    assert (users(gone), dict(gone.configs(ResourceType.USER, "alice"))) == ([], {"producer_byte_rate": "1"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (NEW._replace(user=""), errors.UnacceptableCredential),
        (NEW._replace(mechanism=0), errors.UnsupportedSaslMechanism),
        (NEW._replace(mechanism=3), errors.UnsupportedSaslMechanism),
        (NEW._replace(iterations=4095), errors.UnacceptableCredential),
        (NEW._replace(iterations=16385), errors.UnacceptableCredential),
        (NEW._replace(salt=b""), errors.UnacceptableCredential),
        (NEW._replace(salted_password=b""), errors.UnacceptableCredential),
        (ScramChange("alice", 1), errors.ResourceNotFound),
        (ScramChange("alice", 5), errors.UnsupportedSaslMechanism),
    ],
)
def test_invalid_passwords_are_refused(change: ScramChange, error: type[Exception]) -> None:
    assert refusal(EMPTY, change) is error


def test_a_request_that_changes_a_scram_password_twice_changes_nothing() -> None:
    assert refusal(EMPTY, NEW, NEW) is errors.DuplicateResource
    assert refusal(EMPTY, NEW, NEW._replace(mechanism=2, iterations=1)) is errors.UnacceptableCredential
    plan = alter(EMPTY, [NEW._replace(iterations=1), NEW._replace(user="bob")])
    assert [type(each) for each in plan.results.values()] == [errors.UnacceptableCredential, type(None)]
    assert len(plan.steps) == 1


def test_the_first_scram_password_of_a_user_needs_no_earlier_one() -> None:
    first = NEW._replace(is_new_only=True)
    image = after(EMPTY, first)
    assert alter(image, [first._replace(salted_password=b"other")]).steps == []
    assert after(image, NEW._replace(salted_password=b"other")) != image


def test_the_journal_tells_other_brokers() -> None:
    (step,) = alter(EMPTY, [NEW]).steps
    delta = journal.decode(journal.encode(step.delta, EMPTY, 1), EMPTY)
    assert users(EMPTY.apply(delta)) == [ScramUser("alice", {1: 4096})]


def test_a_user_without_a_readable_scram_password_does_not_exist() -> None:
    image = MetadataImage(resource_configs={(ResourceType.USER, "alice"): {"SCRAM-SHA-256": "salt=x"}})
    assert users(image) == users(image, ["alice", "bob"]) == []


def test_a_change_does_not_show_its_secret() -> None:
    assert repr(NEW) == "ScramChange(user='alice', mechanism=1)"


@pytest.mark.parametrize(
    ("user", "node"),
    [("alice", "alice"), ("CN=a, O=b c", "CN%3Da%2C%20O%3Db%20c"), ("a*+~/", "a%2A%2B%7E%2F"), ("ü", "%C3%BC"),
     ("<default>", "%3Cdefault%3E"), (".", "%2E"), ("..", "%2E%2E")],
)
def test_the_node_of_a_user_has_the_name_that_kafka_gives_it(user: str, node: str) -> None:
    assert znodes.config_path(ResourceType.USER, user) == f"/config/users/{node}"
    assert znodes.config_name(ResourceType.USER, node) == user


@given(some.text(some.characters(exclude_categories=("Cs",)), min_size=1))
def test_every_user_name_has_a_node_name(user: str) -> None:
    path = znodes.config_path(ResourceType.USER, user)
    assert znodes.config_name(ResourceType.USER, path.removeprefix("/config/users/")) == user
