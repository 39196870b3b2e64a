"""Groups of both protocols: sharing, failover, committed offsets, patterns, listeners."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack

import pytest

from pyclient import Consumer, Producer, TopicPartition
from pyclient.consumer.errors import CommitFailed
from pyclient.errors import KafkaError
from pyclient.tests.brokers import unique
from pyclient.tests.support import take, until

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture
def join(broker, group):
    """Makes a member of the test's group."""
    with ExitStack() as stack:

        def make(topics, **settings):
            first = {"auto_offset_reset": "earliest", "group_id": group, "enable_auto_commit": False}
            if settings.get("group_protocol") != "consumer":
                first["heartbeat_interval_ms"] = 200
            return stack.enter_context(Consumer(broker.bootstrap, topics=topics, **{**first, **settings}))

        yield make


def settled(members, count):
    """Polls all members until they share ``count`` partitions. Returns the records that they read meanwhile."""
    found = []

    def shared() -> bool:
        for member in members:
            found.extend(member.poll(timeout=0.05))
        owned = [place for member in members for place in member.assignment()]
        return len(owned) == len(set(owned)) == count and all(member.assignment() for member in members)

    until(shared, "a shared assignment")
    return found


def fill(broker, topic, partitions, count=10):
    with Producer(broker.bootstrap) as producer:
        for partition in range(partitions):
            producer.send_many(topic, [b"%d" % number for number in range(count)], partition=partition)


@BOTH
def test_members_share_partitions_and_take_over_those_of_a_closed_one(broker, new_topic, join, protocol):
    topic = new_topic(4)
    fill(broker, topic, 4)
    first = join(topic, group_protocol=protocol)
    found = settled([first], 4)
    second = join(topic, group_protocol=protocol)
    found += settled([first, second], 4)
    assert {len(first.assignment()), len(second.assignment())} == {2}
    second.close()
    found += settled([first], 4)
    until(lambda: found.extend(first.poll(timeout=0.1)) or len({(r.partition, r.offset) for r in found}) == 40)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_every_assignor_shares_the_partitions(new_topic, join, assignor):
    topic = new_topic(4)
    members = [join(topic, partition_assignment_strategy=assignor) for _ in range(2)]
    settled(members, 4)
    assert [len(member.assignment()) for member in members] == [2, 2]


@BOTH
def test_committed_offsets_are_where_the_next_member_begins(broker, topic, join, protocol):
    fill(broker, topic, 1, 100)
    first = join(topic, group_protocol=protocol)
    last = take(first, 100)[41]
    first.commit(last)
    first.close()
    second = join(topic, group_protocol=protocol)
    assert take(second, 1)[0].offset == 42
    assert second.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 42


@BOTH
def test_auto_commit_commits_the_returned_records_at_close(broker, topic, join, protocol):
    fill(broker, topic, 1, 100)
    first = join(topic, group_protocol=protocol, enable_auto_commit=True)
    given = take(first, 1)
    first.close()
    second = join(topic, group_protocol=protocol)
    fill(broker, topic, 1, 1)
    assert take(second, 1)[0].offset == given[-1].offset + 1


@BOTH
def test_an_exception_does_not_commit_unprocessed_records(broker, topic, join, group, protocol):
    fill(broker, topic, 1, 10)
    settings = {"group_id": group, "auto_offset_reset": "earliest", "group_protocol": protocol}

    def work():
        with Consumer(broker.bootstrap, topics=topic, **settings) as first:
            take(first, 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert take(join(topic, group_protocol=protocol), 1)[0].offset == 0


@BOTH
def test_a_listener_may_commit_partitions_that_are_being_revoked(broker, new_topic, join, protocol):
    topic = new_topic(2)
    fill(broker, topic, 2)
    told = []

    class Listener:
        def on_partitions_assigned(self, partitions):
            told.append(("assigned", set(partitions)))

        def on_partitions_revoked(self, partitions):
            first.commit(dict.fromkeys(partitions, 7))
            told.append(("revoked", set(partitions)))

    first = join((), group_protocol=protocol)
    first.subscribe([topic], listener=Listener())
    take(first, 20)
    second = join(topic, group_protocol=protocol)
    found = settled([first, second], 2)
    moved = next(iter(second.assignment()))
    assert any(kind == "revoked" and moved in places for kind, places in told)
    until(lambda: found.extend(second.poll(timeout=0.1)) or any(r.offset == 9 for r in found))
    assert min(record.offset for record in found if record.partition == moved.partition) == 7
    assert told[0] == ("assigned", {TopicPartition(topic, 0), TopicPartition(topic, 1)})


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.nightly)])
def test_a_pattern_subscribes_to_topics_created_later(broker, new_topic, join, protocol):
    stem = unique("pattern")
    early = new_topic(stem=f"{stem}-a")
    fill(broker, early, 1)
    pattern = re.compile(f"{stem}-[ab].*")
    member = join(pattern, group_protocol=protocol, metadata_max_age_ms=300, enable_auto_commit=True)
    assert {record.topic for record in take(member, 10)} == {early}
    new_topic(stem=f"{stem}-c")
    late = new_topic(stem=f"{stem}-b")
    fill(broker, late, 1)
    assert {record.topic for record in take(member, 10)} == {late}
    assert member.subscription() == {early, late}


@BOTH
def test_a_static_member_comes_back_without_a_rebalance(broker, new_topic, join, admin, group, protocol):
    topic = new_topic(2)
    first = join(topic, group_protocol=protocol, group_instance_id="i-1")
    second = join(topic, group_protocol=protocol, group_instance_id="i-2")
    settled([first, second], 2)
    mine = second.assignment()
    second.close()
    again = join(topic, group_protocol=protocol, group_instance_id="i-2")
    until(lambda: again.poll(timeout=0.1) or again.assignment())
    assert again.assignment() == mine
    assert len(admin.describe_consumer_groups(group)[group].members) == 2


@BOTH
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_static_member_that_comes_back_may_change_its_subscription(broker, new_topic, join, protocol, leads):
    before, after = new_topic(2), new_topic(1)
    fill(broker, after, 1)
    members = {}
    for name in ("i-1", "i-2"):
        members[name] = join(before, group_protocol=protocol, group_instance_id=name)
        settled(list(members.values()), 2)
    name = "i-1" if leads else "i-2"
    members.pop(name).close()
    again = join(after, group_protocol=protocol, group_instance_id=name)
    (other,) = members.values()
    found = settled([again, other], 3)
    assert again.assignment() == {TopicPartition(after, 0)}
    until(lambda: found.extend(again.poll(timeout=0.1)) or len(found) == 10)
    assert {record.topic for record in found} == {after}


def test_the_commit_of_an_evicted_member_is_refused(broker, topic, join, admin, group):
    """Case 41: a member that was evicted and did not notice."""
    fill(broker, topic, 1)
    member = join(topic, heartbeat_interval_ms=30_000)
    take(member, 10)
    admin.remove_members_from_consumer_group(group)
    with pytest.raises(CommitFailed):
        member.commit()


@pytest.mark.nightly
@BOTH
def test_a_member_that_does_not_poll_is_evicted(broker, topic, join, protocol):
    fill(broker, topic, 1)
    slow = join(topic, group_protocol=protocol, max_poll_interval_ms=1000)
    take(slow, 10)
    other = join(topic, group_protocol=protocol)
    assert len(take(other, 10)) == 10
    with pytest.raises(KafkaError):
        slow.commit()


@BOTH
def test_a_group_is_described_while_active_and_deleted_afterwards(topic, join, admin, group, protocol):
    member = join(topic, group_protocol=protocol)
    settled([member], 1)
    found = admin.describe_consumer_groups(group)[group]
    assert (found.type, found.state, len(found.members)) == (protocol.title(), "Stable", 1)
    assert found.members[0].assignment == (TopicPartition(topic, 0),)
    metadata = member.group_metadata()
    assert (metadata.group_id, metadata.member_id) == (group, found.members[0].member_id)
    member.commit({TopicPartition(topic, 0): 3})
    member.close()
    assert admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset == 3
    admin.delete_consumer_groups(group)
    assert group not in {listing.group_id for listing in admin.list_groups()}


@pytest.mark.nightly
@BOTH
def test_heartbeats_continue_while_the_application_works(topic, join, protocol):
    """The session is shorter than the work between two polls."""
    settings = {"session_timeout_ms": 6000} if protocol == "classic" else {}
    member = join(topic, group_protocol=protocol, **settings)
    settled([member], 1)
    who = member.group_metadata()
    threading.Event().wait(1.0)
    assert not member.poll(timeout=0)
    assert member.group_metadata() == who
    member.commit({TopicPartition(topic, 0): 0})


@BOTH
def test_unsubscribe_leaves_the_group_and_subscribe_rejoins_it(broker, new_topic, join, protocol):
    one, two = new_topic(), new_topic()
    fill(broker, one, 1)
    fill(broker, two, 1)
    member = join(one, group_protocol=protocol)
    take(member, 10)
    member.subscribe([two])
    assert {record.topic for record in take(member, 10)} == {two}
    member.unsubscribe()
    assert member.assignment() == set()
    member.subscribe([one, two])
    assert len(take(member, 10)) >= 10
