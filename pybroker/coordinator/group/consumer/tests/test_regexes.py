"""Subscriptions by regular expression."""

from __future__ import annotations

import pytest

from pybroker.coordinator import topic_regex
from pybroker.coordinator.group.consumer.tests.driver import LEAVE, Client, Driver, image_of, settle
from pyclient.protocol import errors

PATTERN = {"subscribed_topic_regex": "a-.*"}


def driver_of_topics() -> Driver:
    return Driver(image_of(**{"a-1": 2, "a-2": 2, "b-a-1": 2}))


def test_topics_that_match_an_expression_are_assigned_once_they_are_resolved() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    assert client.has == {}
    driver.do_effects()
    settle([client])
    assert client.has == {"a-1": {0, 1}, "a-2": {0, 1}}
    assert driver.consumers().is_subscribed("a-1")
    assert not driver.consumers().is_subscribed("b-a-1")


def test_a_later_topic_that_matches_an_expression_is_assigned() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    driver.do_effects()
    settle([client])
    driver.change_topics(**{"a-3": 1})
    client.beat()
    assert driver.effects == [], "not before ten seconds have passed"
    driver.pass_ms(10_001)
    client.beat()
    driver.do_effects()
    settle([client])
    assert client.has["a-3"] == {0}


def test_expressions_are_looked_up_again_after_the_refresh_interval_and_not_before() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    driver.do_effects()
    settle([client])
    for _ in range(15):
        driver.pass_ms(40_000)
        client.beat()
    assert driver.effects == []
    driver.pass_ms(1)
    client.beat()
    assert len(driver.effects) == 1
    epoch = driver.consumers().epoch
    driver.do_effects()
    assert driver.consumers().epoch == epoch


def test_members_with_the_same_expression_are_looked_up_once() -> None:
    driver = driver_of_topics()
    clients = [Client(driver, name, **PATTERN).come() for name in ("one", "other")]
    assert len(driver.effects) == 1
    driver.do_effects()
    settle(clients)
    assert driver.consumers().subscriptions.are_alike
    assert [sum(map(len, client.has.values())) for client in clients] == [2, 2]


def test_an_expression_that_nobody_uses_is_forgotten() -> None:
    driver = driver_of_topics()
    one = Client(driver, "one", **PATTERN).come()
    other = Client(driver, "other").come("b-a-1")
    driver.do_effects()
    settle([one, other])
    driver.beat("one", LEAVE)
    group = driver.consumers()
    assert (group.subscriptions.resolved, group.subscriptions.regexes) == ({}, {})
    assert not group.is_subscribed("a-1")
    assert driver.again().consumers().subscriptions.resolved == {}


def test_an_expression_may_be_replaced_by_names() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    driver.do_effects()
    settle([client])
    client.take(
        driver.beat(
            "m",
            client.epoch,
            has=client.has,
            subscribed_topic_regex="",
            subscribed_topic_names=["b-a-1"],
        )
    )
    settle([client])
    assert client.has == {"b-a-1": {0, 1}}


def test_an_invalid_expression_is_refused() -> None:
    driver = driver_of_topics()
    refused = driver.come("m", subscribed_topic_regex="(")
    assert refused.code == errors.InvalidRegularExpression.code
    assert driver.shard.groups == {}


def test_a_lookup_that_failed_is_tried_again() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    driver.effects.clear()
    driver.perform(lambda result: driver.shard.consumers.resolved("g", None, result))
    client.beat()
    driver.do_effects()
    settle([client])
    assert set(client.has) == {"a-1", "a-2"}


def test_a_loaded_group_resolves_its_expressions_again() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    driver.do_effects()
    settle([client])
    driver.pass_ms(10_001)
    loaded = client.driver = driver.again()
    loaded.monotonic_ms = driver.monotonic_ms
    client.beat()
    assert len(loaded.effects) == 1


def test_an_expression_must_match_the_whole_topic_name() -> None:
    found = topic_regex.matching(["a", "a.*", "[", ".*z"], ["a", "ab", "ba"])
    assert found == {"a": {"a"}, "a.*": {"a", "ab"}, "[": frozenset(), ".*z": frozenset()}


@pytest.mark.parametrize("regex", ["(", "a{1000}{1000}", "*"])
def test_an_invalid_expression_is_reported_as_invalid(regex: str) -> None:
    with pytest.raises(errors.InvalidRegularExpression, match="is not a valid regular expression"):
        topic_regex.check(regex)


@pytest.mark.parametrize(
    "regex", ["a" * 10_001, "(" * 16_000 + ")" * 16_000, r"\pL" * 100, "a?" * 1000, "(a{1,30}){1,30}" * 200]
)
def test_an_expression_that_takes_long_to_parse_is_refused(regex: str) -> None:
    with pytest.raises(errors.InvalidRegularExpression, match="is too long, or has too many repetitions") as raised:
        topic_regex.check(regex)
    assert len(str(raised.value)) < 200


def test_a_long_list_of_names_is_an_expression() -> None:
    topic_regex.check("|".join(f"topic-{number}" for number in range(800)))


def test_capturing_groups_of_an_expression_are_not_evaluated() -> None:
    """To record where each of five thousand groups matches takes half a second and 780 MB for one name."""
    assert topic_regex._compile("((a)(b))").groups == 0
    assert topic_regex.matching(["(" * 4999 + "a" + ")" * 4999], ["a", "b"]).popitem()[1] == {"a"}


def test_a_clock_that_is_set_back_does_not_keep_a_new_expression_waiting() -> None:
    driver = driver_of_topics()
    client = Client(driver, "m", **PATTERN).come()
    driver.do_effects()
    settle([client])
    driver.wall_shift_ms = -3_600_000
    driver.come("m2", subscribed_topic_regex="b-.*")
    assert len(driver.effects) == 1
