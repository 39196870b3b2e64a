"""The new consumer protocol (KIP-848): its own features, with the clients that speak it.

``test_groups`` and similar files test what both protocols share (S50–S60).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conformance import drivers
from conformance.conftest import QUICK_GROUPS
from conformance.drivers.base import Consumer, Place
from harness.clients.librdkafka import write
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly
PARTITIONS = 4
PATIENCE_S = 90

Join = Callable[..., Consumer]


@pytest.fixture(scope="module")
def quick(broker_kind: type[Broker], data_root: Path) -> Iterator[Broker]:
    """Starts a broker for these tests alone: one of them kills it."""
    with broker_kind(data_root / "consumer-protocol", **QUICK_GROUPS) as one:
        yield one


@pytest.fixture
def topic(quick: Broker, group: str) -> str:
    """Creates a topic of four partitions, named like the group."""
    make_topic(quick, name := f"read-by-{group}")
    return name


@pytest.fixture
def join(quick: Broker, group: str) -> Iterator[Join]:
    """Adds new members to the test's group: ``join("java", "consumer", topic)``."""
    with ExitStack() as members:

        def make(client: str, protocol: str, *topics: str, **settings: object) -> Consumer:
            values = {"group_id": group, "group_protocol": protocol, "heartbeat_interval_ms": 200, **settings}
            member = members.enter_context(drivers.opened(client).consumer(quick.bootstrap, **values))
            if topics:
                member.subscribe(list(topics))
            return member

        yield make


def make_topic(broker: Broker, name: str) -> None:
    with Wire(broker.address) as wire:
        wire.create_topic(name, PARTITIONS, {})


def whole(*topics: str) -> set[Place]:
    return {Place(topic, partition) for topic in topics for partition in range(PARTITIONS)}


def shares(members: list[Consumer], places: set[Place]) -> Callable[[], bool]:
    """Returns whether these members hold exactly these partitions, one each."""

    def look() -> bool:
        for member in members:
            member.poll(0.1)
        held = [member.assignment() for member in members]
        return all(held) and sum(map(len, held)) == len(places) and set().union(*held) == places

    return look


def wait_for_shares(members: list[Consumer], places: set[Place]) -> None:
    until(shares(members, places), f"{len(members)} shares of {len(places)} partitions", PATIENCE_S)


def read(members: list[Consumer], count: int) -> list[bytes]:
    """Returns the values that all members read, until there are ``count``."""
    values: list[bytes] = []

    def look() -> bool:
        for member in members:
            values.extend(record.value or b"" for record in member.poll(0.1))
        return len(values) >= count

    until(look, f"{count} records", PATIENCE_S)
    return values


def described(broker: Broker, group: str) -> Any:
    with Wire(broker.address) as wire:
        return wire.ask(
            "ConsumerGroupDescribe", 1, group_ids=[group], include_authorized_operations=False
        ).groups[0]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_librdkafka_and_java_share_one_group_by_the_brokers_assignor(
    quick: Broker, topic: str, group: str, join: Join, assignor: str
) -> None:
    members = [
        join("confluent", "consumer", topic, group_remote_assignor=assignor),
        join("java", "consumer", topic, group_remote_assignor=assignor),
    ]
    wait_for_shares(members, whole(topic))
    row = described(quick, group)
    assert row.assignor_name == assignor
    assert [member.member_type for member in row.members] == [1, 1]
    values = [b"%d" % number for number in range(40)]
    write(quick, topic, values)
    assert sorted(read(members, 40)) == sorted(values)
    members[0].close()
    wait_for_shares(members[1:], whole(topic))


def test_a_group_is_upgraded_and_downgraded_while_its_members_read(
    quick: Broker, topic: str, group: str, join: Join
) -> None:
    classic = join("java", "classic", topic, partition_assignment_strategy="cooperative-sticky")
    wait_for_shares([classic], whole(topic))
    write(quick, topic, [b"classic"] * 10)
    read([classic], 10)
    classic.commit()
    new = join("java", "consumer", topic)
    wait_for_shares([classic, new], whole(topic))
    assert sorted(member.member_type for member in described(quick, group).members) == [0, 1]
    write(quick, topic, [b"mixed"] * 20)
    assert read([classic, new], 20) == [b"mixed"] * 20
    classic.commit()
    new.commit()
    new.close()
    wait_for_shares([classic], whole(topic))
    assert described(quick, group).error_code == error_codes.GROUP_ID_NOT_FOUND
    write(quick, topic, [b"classic again"] * 10)
    assert read([classic], 10) == [b"classic again"] * 10


def test_a_static_member_keeps_its_partitions_when_it_returns(topic: str, join: Join) -> None:
    def start() -> Consumer:
        return join("confluent", "consumer", topic, group_instance_id="one")

    other = join("confluent", "consumer", topic, group_instance_id="other")
    member = start()
    wait_for_shares([member, other], whole(topic))
    had, others = member.assignment(), other.assignment()
    member.close()
    member = start()
    wait_for_shares([member, other], whole(topic))
    assert (member.assignment(), other.assignment()) == (had, others)


def test_a_regular_expression_subscribes_to_the_topics_that_match(quick: Broker, group: str, join: Join) -> None:
    names = [f"{group}-of-{number}" for number in range(2)]
    for name in [*names, f"not-{names[0]}"]:
        make_topic(quick, name)
    member = join("confluent", "consumer")
    member.subscribe_pattern(f"{group}-of-.*")
    wait_for_shares([member], whole(*names))


def test_members_and_offsets_survive_a_broker_kill(quick: Broker, topic: str, group: str, join: Join) -> None:
    member = join("confluent", "consumer", topic)
    write(quick, topic, [b"before"] * 10)
    assert read([member], 10) == [b"before"] * 10
    member.commit()
    epoch = described(quick, group).group_epoch
    quick.kill()
    quick.start()
    until(lambda: described(quick, group).error_code == 0, "the group is loaded", PATIENCE_S)
    assert described(quick, group).group_epoch == epoch
    write(quick, topic, [b"after"] * 10)
    assert read([member], 10) == [b"after"] * 10
