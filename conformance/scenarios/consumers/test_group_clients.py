"""Consumer groups with librdkafka, aiokafka, Kafka's own consumer and ours, in both protocols: S50–S58 and S60."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from conformance import drivers
from conformance.conftest import Counted, NewBroker, NewTopic
from conformance.drivers.base import CommitRefused, Consumer, Driver, Event, Place, Record, WokenUp
from conformance.scenarios.conftest import NewMember
from harness.clients.librdkafka import write
from harness.clients.members import committed
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

PATIENCE_S = 90.0
SOON_S = 0.3
"""A poll has usually begun after this time; the test also passes without it."""
#: The broker controls the new protocol's timers; they are as short as the clients' in the old one.
QUICK = {
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 3_000,
}
NUMBERS = [b"%d" % number for number in range(60)]


def places(topic: str, count: int) -> set[Place]:
    return {Place(topic, partition) for partition in range(count)}


def serve(members: Iterable[Consumer]) -> list[Record]:
    """Polls each member once, and returns their records."""
    return [record for member in members for record in member.poll(0.05)]


def await_shares(
    members: list[Consumer], expected: set[Place], sizes: Iterable[int] | None = None
) -> list[set[Place]]:
    """Waits until they hold each of these partitions once, in shares of these sizes (one at least); returns the shares.
    """
    wanted = sorted(sizes) if sizes is not None else None

    def settled() -> list[set[Place]] | None:
        serve(members)
        shares = [member.assignment() for member in members]
        found = sorted(map(len, shares))
        whole = set().union(*shares) == expected and sum(found) == len(expected)
        return shares if whole and (found == wanted if wanted else found[0] > 0) else None

    shares = until(settled, f"{len(members)} shares of {len(expected)} partitions", PATIENCE_S)
    assert shares is not None
    return shares


def take(members: list[Consumer], count: int) -> list[Record]:
    """Reads this many records from any of the members."""
    found: list[Record] = []

    def come() -> bool:
        found.extend(serve(members))
        return len(found) >= count

    until(come, f"{count} records", PATIENCE_S)
    assert len(found) == count
    return found


def committed_now(broker: Broker, group: str, topic: str) -> int:
    with Wire(broker.address) as wire:
        return committed(wire, group, topic)


def test_s50_a_partition_has_one_consumer_per_group_and_groups_are_independent(
    broker: Broker, new_topic: NewTopic, new_member: NewMember, group: str
) -> None:
    topic = new_topic(partitions=4)
    members = [new_member(broker) for _ in range(2)]
    stranger = new_member(broker, group_id=f"{group}-other")
    for member in [*members, stranger]:
        member.subscribe([topic])
    await_shares(members, places(topic, 4), sizes=[2, 2])
    await_shares([stranger], places(topic, 4))
    for partition in range(4):
        write(broker, topic, NUMBERS[:5], partition=partition)
    assert len(take(members, 20)) == len(take([stranger], 20))


def test_s51_consumers_beyond_the_number_of_partitions_idle(
    broker: Broker, new_topic: NewTopic, new_member: NewMember
) -> None:
    topic = new_topic(partitions=2)
    members = [new_member(broker) for _ in range(3)]
    for member in members:
        member.subscribe([topic])
    await_shares(members, places(topic, 2), sizes=[0, 1, 1])


def test_s52_partitions_move_when_a_member_joins_and_leaves_and_when_the_topic_grows(
    broker: Broker, new_topic: NewTopic, new_member: NewMember
) -> None:
    topic = new_topic(partitions=3)
    one = new_member(broker, metadata_max_age_ms=200)
    one.subscribe([topic])
    await_shares([one], places(topic, 3))
    other = new_member(broker, metadata_max_age_ms=200)
    other.subscribe([topic])
    await_shares([one, other], places(topic, 3))
    other.close()
    await_shares([one], places(topic, 3))
    with Wire(broker.address) as wire:
        rows = [{"name": topic, "count": 5, "assignments": None}]
        reply = wire.ask("CreatePartitions", 1, topics=rows, timeout_ms=30_000, validate_only=False)
        assert reply.results[0].error_code == 0
    await_shares([one], places(topic, 5))
    write(broker, topic, [b"new"], partition=4)
    assert [record.place for record in take([one], 1)] == [Place(topic, 4)]


def test_s53_a_member_that_does_not_poll_is_evicted_and_its_commit_refused(
    new_broker: NewBroker, new_member: NewMember, client: tuple[str, str]
) -> None:
    """Another member gets its records again."""
    broker = new_broker(**{key.replace(".", "_"): value for key, value in QUICK.items()})
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    write(broker, "t", NUMBERS)
    settings = {"session_timeout_ms": 3_000, "max_poll_interval_ms": 3_000}
    slow = new_member(broker, **settings)
    slow.subscribe(["t"])
    first = take([slow], 60)
    heir = new_member(broker)
    heir.subscribe(["t"])
    again = take([heir], 60)
    assert [record.offset for record in again] == [record.offset for record in first]
    with pytest.raises(CommitRefused):
        slow.commit({Place("t", 0): 60})
    heir.commit({Place("t", 0): 30})
    assert heir.committed([Place("t", 0)]) == {Place("t", 0): 30}


def test_s53_a_smaller_max_poll_records_avoids_the_eviction(
    new_broker: NewBroker, new_member: NewMember, group: str, counted: Counted
) -> None:
    """Each record takes an eighth of a second: thirty exceed ``max.poll.interval.ms``, five do not."""
    broker = new_broker(**{key.replace(".", "_"): value for key, value in QUICK.items()})
    broker.make_topic("t")
    settings = {"session_timeout_ms": 3_000, "max_poll_interval_ms": 3_000}
    greedy = new_member(broker, group_id=f"{group}-greedy", max_poll_records=30, **settings)
    modest = new_member(broker, group_id=f"{group}-modest", max_poll_records=5, **settings)
    for member in (greedy, modest):
        member.subscribe(["t"])
    until(lambda: serve([greedy, modest]) or (greedy.assignment() and modest.assignment()), "both to have it")
    write(broker, "t", NUMBERS[:30])
    assert len(take([greedy], 30)) == 30
    processed = 0
    while processed < 30:
        rows = modest.poll(0.2, 5)
        assert len(rows) <= 5
        time.sleep(0.125 * len(rows))
        processed += len(rows)
        modest.commit()
    heir = new_member(broker, group_id=f"{group}-greedy", **settings)
    heir.subscribe(["t"])
    again = len(take([heir], 30))
    with pytest.raises(CommitRefused):
        greedy.commit({Place("t", 0): 30})
    found = {name: committed_now(broker, f"{group}-{name}", "t") for name in ("greedy", "modest")}
    assert found == {"greedy": -1, "modest": 30}
    counted("30 at once", records=30, doubled=again)
    counted("5 at once", records=30, doubled=0)


def test_s54_every_assignor_of_a_client_shares_evenly(
    broker: Broker, new_topic: NewTopic, driver: Driver, group: str
) -> None:
    for strategy in driver.strategies:
        topic = new_topic(partitions=4)
        settings = {"group_id": f"{group}-{strategy}", "heartbeat_interval_ms": 200}
        with (
            driver.consumer(broker.bootstrap, partition_assignment_strategy=strategy, **settings) as one,
            driver.consumer(broker.bootstrap, partition_assignment_strategy=strategy, **settings) as other,
        ):
            one.subscribe([topic])
            other.subscribe([topic])
            await_shares([one, other], places(topic, 4), sizes=[2, 2])


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("client", ["confluent", "java", "pyclient"])
def test_s54_the_brokers_assignors_share_evenly_and_follow_the_members(
    broker: Broker, new_topic: NewTopic, group: str, client: str, assignor: str
) -> None:
    topics = [new_topic(partitions=4), new_topic(partitions=4)]
    expected = places(topics[0], 4) | places(topics[1], 4)
    settings = {"group_id": group, "group_protocol": "consumer", "group_remote_assignor": assignor}
    members: list[Consumer] = []
    try:
        for count in (1, 2, 4):
            while len(members) < count:
                members.append(drivers.opened(client).consumer(broker.bootstrap, **settings))
                members[-1].subscribe(topics)
            shares = await_shares(members, expected, sizes=[8 // count] * count)
            if assignor == "range":
                assert all(co_partitioned(share) for share in shares)
    finally:
        for member in members:
            member.close()


def co_partitioned(share: set[Place]) -> bool:
    """Returns whether a share has the same partitions of each topic."""
    by_topic = {topic: {place.partition for place in share if place.topic == topic} for topic, _ in share}
    return len({frozenset(partitions) for partitions in by_topic.values()}) == 1


def test_s55_a_matching_topic_created_later_is_subscribed(
    new_broker: NewBroker, new_member: NewMember
) -> None:
    """The broker is the test's own, because it matches patterns when a pattern is new, and otherwise seldom."""
    broker = new_broker(group_consumer_regex_refresh_interval_ms=10_000)
    with Wire(broker.address) as wire:
        for name in ("logs.one", "other"):
            wire.create_topic(name)
        member = new_member(broker, metadata_max_age_ms=200)
        member.subscribe_pattern(r"logs\..*")
        await_shares([member], {Place("logs.one", 0)})
        wire.create_topic("logs.two", 2)
        await_shares([member], {Place("logs.one", 0), *places("logs.two", 2)})


@pytest.mark.parametrize("asynchronous", [False, True])
def test_s56_the_next_consumer_starts_at_the_committed_offset(
    broker: Broker, topic: str, new_member: NewMember, group: str, asynchronous: bool
) -> None:
    write(broker, topic, NUMBERS)
    one = new_member(broker)
    one.subscribe([topic])
    take([one], 60)
    one.commit({Place(topic, 0): 45}, asynchronous=asynchronous)
    until(lambda: serve([one]) or committed_now(broker, group, topic) == 45, "the commit", PATIENCE_S)
    one.close()
    heir = new_member(broker)
    heir.subscribe([topic])
    assert [record.value for record in take([heir], 15)] == NUMBERS[45:]


def test_s56_auto_commit_commits_what_was_consumed(
    broker: Broker, topic: str, new_member: NewMember, group: str
) -> None:
    write(broker, topic, NUMBERS)
    with new_member(broker, enable_auto_commit=True, auto_commit_interval_ms=50) as member:
        member.subscribe([topic])
        take([member], 60)
        until(lambda: serve([member]) or committed_now(broker, group, topic) == 60, "the commit", PATIENCE_S)


@pytest.mark.parametrize(("offset", "duplicates", "lost"), [(40, 20, 0), (65, 0, 5), (60, 0, 0)])
def test_s56_an_offset_committed_too_low_causes_duplicates_and_too_high_causes_loss(
    broker: Broker, topic: str, new_member: NewMember, offset: int, duplicates: int, lost: int, counted: Counted
) -> None:
    """The member processes all 60 records, then 10 more follow; its commit names another offset."""
    write(broker, topic, NUMBERS)
    with new_member(broker) as one:
        one.subscribe([topic])
        first = [record.offset for record in take([one], 60)]
        one.commit({Place(topic, 0): offset})
    write(broker, topic, NUMBERS[:10])
    heir = new_member(broker)
    heir.subscribe([topic])
    second = [record.offset for record in take([heir], 70 - offset)]
    found = {"doubled": len(set(first) & set(second)), "lost": len(set(range(70)) - set(first) - set(second))}
    counted(f"60 processed, {offset} committed", **found)
    assert found == {"doubled": duplicates, "lost": lost}


def test_s57_s60_a_crash_of_the_coordinator_loses_no_commit_and_members_continue(
    new_broker: NewBroker, new_member: NewMember, group: str
) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    write(broker, "t", NUMBERS)
    member = new_member(broker)
    member.subscribe(["t"])
    take([member], 60)
    member.commit({Place("t", 0): 60})
    broker.crash()
    assert committed_now(broker, group, "t") == 60
    write(broker, "t", [b"after"])
    assert [record.value for record in take([member], 1)] == [b"after"]
    until(lambda: serve([member]) or holds(member, 61), "a commit after the crash", PATIENCE_S)
    assert committed_now(broker, group, "t") == 61


def holds(member: Consumer, offset: int) -> bool:
    """Returns whether the broker accepts a commit; a member that the crash removed has to rejoin first."""
    try:
        member.commit({Place("t", 0): offset})
    except CommitRefused:
        return False
    return True


def test_s58_a_rebalance_listener_is_called_for_assigned_and_revoked_partitions(
    broker: Broker, new_topic: NewTopic, new_member: NewMember
) -> None:
    """The listener's calls always add up to the member's partitions."""
    topic = new_topic(partitions=2)
    one, other = new_member(broker), new_member(broker)
    one.subscribe([topic])
    await_shares([one], places(topic, 2))
    assert heard(one.events) == places(topic, 2)
    other.subscribe([topic])
    shares = await_shares([one, other], places(topic, 2))
    assert [heard(member.events) for member in (one, other)] == shares
    assert "revoked" in {event.kind for event in one.events if event.places}
    other.close()
    await_shares([one], places(topic, 2))
    assert heard(one.events) == places(topic, 2)


def heard(events: Iterable[Event]) -> set[Place]:
    """Returns the partitions that a listener must believe it holds."""
    held: set[Place] = set()
    for event in events:
        held = held | event.places if event.kind == "assigned" else held - event.places
    return held


def test_s58_seek_goes_to_any_offset(broker: Broker, topic: str, new_member: NewMember) -> None:
    write(broker, topic, NUMBERS)
    member = new_member(broker)
    member.subscribe([topic])
    take([member], 60)
    for offset in (0, 37, 59):
        member.seek(Place(topic, 0), offset)
        assert [record.offset for record in take([member], 60 - offset)] == list(range(offset, 60))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("client", ["java", "pyclient"])
def test_s58_wakeup_ends_the_poll_of_another_thread(
    broker: Broker, topic: str, group: str, client: str, protocol: str
) -> None:
    """Only Kafka's own consumer and ours support it."""
    driver = drivers.opened(client)
    with driver.consumer(broker.bootstrap, group_id=group, group_protocol=protocol) as member:
        member.subscribe([topic])
        await_shares([member], {Place(topic, 0)})
        waker = threading.Timer(SOON_S, member.wakeup)
        waker.start()
        with pytest.raises(WokenUp):
            until(lambda: member.poll(PATIENCE_S) and False, "the wakeup", PATIENCE_S)  # A poll may end early.
        waker.join()


def test_s59_read_committed_and_uncommitted_members_of_a_group_end_at_their_own_ends(
    broker: Broker, topic: str, new_member: NewMember, group: str
) -> None:
    """Behind an open transaction, one ``isolation.level`` waits and the other continues."""
    with drivers.opened("confluent").producer(broker.bootstrap, transactional_id=group) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send(topic, b"open")
        producer.flush()
        write(broker, topic, NUMBERS[:3])
        hasty = new_member(broker, group_id=f"{group}-hasty", isolation_level="read_uncommitted")
        patient = new_member(broker, isolation_level="read_committed")
        for member in (hasty, patient):
            member.subscribe([topic])
        assert [record.value for record in take([hasty], 4)] == [b"open", *NUMBERS[:3]]
        await_shares([patient], {Place(topic, 0)})
        assert serve([patient]) == []
        producer.abort()
        assert [record.value for record in take([patient], 3)] == NUMBERS[:3]
