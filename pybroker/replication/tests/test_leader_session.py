"""A follower and its leader, without a network: what is asked, and what is answered."""

from __future__ import annotations

from pybroker.replication.following.leader_session import FetchLimits
from pybroker.replication.tests.harness import NOW
from pybroker.replication.tests.pair import LEADER, Pair, contents, named


def test_the_follower_gets_the_bytes_and_the_high_watermark_follows(pair: Pair) -> None:
    leader = pair.create()
    pair.leader.append(b"a", b"b")
    pair.round()
    assert contents(pair.log()) == [b"a", b"b"]
    assert leader.high_watermark == 0
    pair.round()
    assert leader.high_watermark == 2
    pair.leader.append(b"c")
    pair.round()
    assert pair.log().high_watermark == 2
    assert pair.log().read(0, 1 << 20).read() == leader.log.read(0, 1 << 20).read()


def test_a_session_names_only_what_has_changed(pair: Pair) -> None:
    pair.create("a")
    pair.create("b")
    pair.round()
    assert len(named(pair.requests[-1])) == 2
    pair.leader.append(b"x", topic="b")
    pair.round()
    assert named(pair.requests[-1]) == []
    pair.round()
    assert named(pair.requests[-1]) == [(0, 1)]
    assert pair.requests[-1].topics[0].topic_id[:1] == b"b"


def test_a_new_partition_is_fetched_while_a_request_waits(pair: Pair) -> None:
    pair.create("a")
    pair.round()
    pair.source._limits = FetchLimits(wait_max_ms=30_000)
    first, request = pair.ask()
    waiting = pair.answer(request)
    assert not waiting.done()
    assert not pair.source.may_ask(0)
    pair.create("b")
    pair.leader.append(b"x", topic="b")
    second, request = pair.ask()
    response = pair.answer(request)
    assert waiting.done()
    pair.hear(first, waiting.result())
    pair.hear(second, response)
    assert contents(pair.log("b")) == [b"x"]


def test_a_postponed_partition_is_fetched_while_a_request_waits(pair: Pair) -> None:
    pair.create("a")
    pair.source.follow(pair.follower.create("b", replicas=(1, 2), epoch=0), NOW)
    pair.source._limits = FetchLimits(wait_max_ms=30_000)
    pair.round()
    first, request = pair.ask()
    waiting = pair.answer(request)
    pair.leader.create("b", replicas=(1, 2), epoch=0)
    pair.leader.append(b"x", topic="b")
    pair.now_ms = pair.source.next_due_ms() or 0
    assert pair.source.may_ask(pair.now_ms)
    second, request = pair.ask()
    assert named(request) == [(0, 0)]
    response = pair.answer(request)
    pair.hear(first, waiting.result())
    pair.hear(second, response)
    assert contents(pair.log("b")) == [b"x"]


def test_the_first_request_of_a_session_is_answered_at_once(pair: Pair) -> None:
    pair.source._limits = FetchLimits(wait_max_ms=30_000)
    pair.create("a")
    pair.round()
    assert pair.requests[-1].session_epoch == 0


def test_an_answer_to_a_request_before_a_change_is_ignored(pair: Pair) -> None:
    pair.create()
    pair.leader.append(b"a")
    number, request = pair.ask()
    response = pair.answer(request)
    pair.create(epoch=1)
    pair.hear(number, response)
    assert contents(pair.log()) == []
    pair.round()
    assert contents(pair.log()) == [b"a"]


def test_a_high_watermark_in_an_ignored_answer_is_sent_again(pair: Pair) -> None:
    """The follower leaves the in-sync set while it fetches, so the high watermark no longer waits for it."""
    pair.create()
    pair.round()
    pair.leader.append(b"a")
    first, request = pair.ask()
    records = pair.answer(request)
    second, request = pair.ask()
    leader = pair.leader.create("t", replicas=(1, 2), isr=(1,), epoch=0, leader=LEADER, partition_epoch=1)
    assert leader.high_watermark == 1
    watermark = pair.answer(request)
    pair.hear(first, records)
    pair.hear(second, watermark)
    assert (pair.log().log_end_offset, pair.log().high_watermark) == (1, 0), "it was asked for offset 0"
    pair.round()
    assert pair.log().high_watermark == 1


def test_a_lost_session_is_followed_by_another(pair: Pair) -> None:
    pair.create()
    pair.round()
    pair.source.next_request()
    pair.source.on_failure()
    pair.leader.append(b"a")
    pair.round()
    assert pair.requests[-1].session_epoch == 0
    assert contents(pair.log()) == [b"a"]


def test_a_partition_that_is_dropped_is_forgotten(pair: Pair) -> None:
    pair.create("a")
    pair.create("b")
    pair.round()
    pair.source.drop((pair.follower.replicas.partitions.topics["a"][0].topic_id, 0))
    pair.round()
    assert [topic.topic_id[:1] for topic in pair.requests[-1].forgotten_topics_data] == [b"a"]


def test_a_leader_that_does_not_lead_yet_is_asked_again_after_a_pause(pair: Pair) -> None:
    pair.create("a")
    follower = pair.follower.create("b", replicas=(1, 2), epoch=0)
    pair.source.follow(follower, NOW)
    pair.round()
    pair.leader.append(b"x", topic="a")
    pair.round()
    assert contents(pair.log("a")) == [b"x"]
    pair.create("b")
    pair.now_ms = pair.source.next_due_ms() or 0
    pair.leader.append(b"y", topic="b")
    pair.round()
    assert contents(pair.log("b")) == [b"y"]
