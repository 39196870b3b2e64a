"""Fetch sessions: which partitions a request has, and how a session begins and ends (KIP-227)."""

from __future__ import annotations

from pyclient.consumer.fetching.fetch_session import FetchSession, Plan, Wanted
from pyclient.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID = b"a" * 16


def wanted(**offsets: int) -> dict[TopicPartition, Wanted]:
    return {TopicPartition(name[0], int(name[1:])): Wanted(ID, offset, 0, -1) for name, offset in offsets.items()}


def sent(plan: Plan) -> dict[str, int]:
    return {
        f"{topic.topic}{row.partition}": row.fetch_offset for topic in plan.topics for row in topic.partitions
    }


def forgotten(plan: Plan) -> set[str]:
    return {f"{topic.topic}{number}" for topic in plan.forgotten for number in topic.partitions}


def established() -> FetchSession:
    session = FetchSession()
    session.plan(wanted(a0=1, a1=2, b0=3), 100)
    session.on_response(0, 77)
    return session


def test_the_first_request_is_full() -> None:
    plan = FetchSession().plan(wanted(a0=1, b0=3), 100)
    assert (plan.session_id, plan.session_epoch, sent(plan)) == (0, 0, {"a0": 1, "b0": 3})


def test_later_requests_have_only_changed_partitions() -> None:
    session = established()
    plan = session.plan(wanted(a0=5, a1=2, b0=3), 100)
    assert (plan.session_id, plan.session_epoch, sent(plan), forgotten(plan)) == (77, 1, {"a0": 5}, set())
    session.on_response(0, 77)
    plan = session.plan(wanted(a0=5, b0=3), 100)
    assert (plan.session_epoch, sent(plan), forgotten(plan)) == (2, {}, {"a1"})


def test_a_forgotten_partition_is_sent_again() -> None:
    session = established()
    session.plan(wanted(a0=1), 100)
    session.on_response(0, 77)
    assert sent(session.plan(wanted(a0=1, b0=3), 100)) == {"b0": 3}


def test_a_topic_created_again_is_forgotten_and_sent_by_its_new_id() -> None:
    session = established()
    rows = wanted(a0=1, a1=2, b0=3)
    rows[B0] = rows[B0]._replace(topic_id=b"b" * 16)
    plan = session.plan(rows, 100)
    assert (sent(plan), forgotten(plan)) == ({"b0": 3}, {"b0"})


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    session = FetchSession()
    session.plan(wanted(a0=1), 100)
    session.on_response(0, 0)
    plan = session.plan(wanted(a0=1), 100)
    assert (plan.session_id, plan.session_epoch, sent(plan)) == (0, 0, {"a0": 1})


def test_a_session_that_the_broker_has_lost_starts_again() -> None:
    session = established()
    session.on_response(70, 0)
    plan = session.plan(wanted(a0=1), 100)
    assert (plan.session_id, plan.session_epoch, sent(plan)) == (0, 0, {"a0": 1})


def test_an_unanswered_request_closes_the_session_and_opens_a_new_one() -> None:
    session = established()
    session.on_failure()
    plan = session.plan(wanted(a0=1, a1=2, b0=3), 100)
    assert (plan.session_id, plan.session_epoch, len(sent(plan))) == (77, 0, 3)


def test_the_session_epoch_wraps_to_1() -> None:
    session = established()
    session.epoch = 0x7FFFFFFF
    session.on_response(0, 77)
    assert session.epoch == 1
