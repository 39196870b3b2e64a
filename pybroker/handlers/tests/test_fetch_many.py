"""A fetch of many partitions gets the usual answer, and other requests are served meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from proofs.garbage import leaves_nothing
from pybroker import waiting
from pybroker.handlers import fetch
from pybroker.handlers.common import pacing
from pybroker.handlers.tests.harness import Node, OneItemTurns
from pybroker.handlers.tests.test_fetch import partitions, request
from pybroker.replication import fetch_session, purgatory
from pybroker.replication.fetch_partition import PartitionRead
from pybroker.replication.fetch_session import FetchSession
from pybroker.replication.purgatory import Purgatory
from pybroker.replication.tests.harness import at_each_turn, values
from pybroker.tests.waiting import until_async
from pyclient.protocol import Fetch

ForgottenTopic = Fetch.Request.ForgottenTopic

MANY = 7


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PIECE", 2)
    monkeypatch.setattr(pacing, "PIECE", 2)
    monkeypatch.setattr(purgatory, "PIECE", 2)
    monkeypatch.setattr(purgatory, "FEW", 2)


@pytest.fixture
def node(make_node: Callable[[], Node]) -> Node:
    """A broker without topics, where each piece has a turn of its own."""
    node = make_node()
    node.turns = OneItemTurns()
    return node


def told(response: Any) -> list[tuple[Any, ...]]:
    return [
        (topic.topic, topic.topic_id, each.partition_index, each.error_code, each.high_watermark, values(each.records))
        for topic in response.responses
        for each in topic.partitions
    ]


def filled(node: Node) -> None:
    node.create(partitions=MANY)
    for index in (1, 4):
        node.append(b"a%d" % index, index=index)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_a_fetch_of_many_partitions_gets_the_same_answer_in_several_turns_as_in_one(
    node: Node, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(node)
    asked = request(*[0] * (MANY + 2))  # two that are not there
    asked.topics += request(0, 0, topic="unknown").topics
    in_turns = node.ask(fetch, asked, version)
    monkeypatch.setattr(fetch, "PIECE", 100)
    assert told(in_turns) == told(node.ask(fetch, asked, version))
    assert len(in_turns.responses) == 2
    assert node.connection.held == 0


def test_a_fetch_session_of_many_partitions_returns_only_changed_ones(node: Node) -> None:
    filled(node)
    session = node.ask(fetch, request(*[0] * MANY, session_epoch=0), 12)
    assert len(partitions(session)) == MANY
    node.append(b"b", index=6)
    more = node.ask(fetch, request(session_id=session.session_id, session_epoch=1), 12)
    assert [row[2] for row in told(more)] == [1, 4, 6]
    gone = node.ask(fetch, request(session_id=session.session_id, session_epoch=7), 12)
    assert gone.error_code == fetch.errors.InvalidFetchSessionEpoch.code


def begun(node: Node, asked: Any) -> asyncio.Task[Any]:
    """Starts the request, and serves it until only time or an append can end it."""

    async def begin() -> Any:
        task = waiting.start(fetch.handle(asked, node.call(12)), node.loop)
        await until_async(lambda: len(node.replicas.purgatory) and not node.connection.held)
        return task

    return node.run(begin())  # type: ignore[no-any-return]


def test_a_fetch_of_many_partitions_waits_until_a_record_is_appended(node: Node) -> None:
    node.create(partitions=MANY)
    task = begun(node, request(*[0] * MANY, max_wait_ms=60_000))
    assert node.connection.held == 0
    node.append(b"x", index=5)
    assert [row[2] for row in told(node.run(task)) if row[5]] == [5]


def test_a_cancelled_fetch_of_many_partitions_leaves_nothing_in_the_purgatory(node: Node) -> None:
    node.create(partitions=MANY)
    task = begun(node, request(*[0] * MANY, max_wait_ms=60_000))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        node.run(task)
    node.run(nobody_waits(node))
    assert node.connection.held == 0


async def nobody_waits(node: Node) -> None:
    """Returns when no request waits."""
    await until_async(lambda: not len(node.replicas.purgatory))


def test_a_fetch_cancelled_while_it_begins_to_wait_for_many_partitions_leaves_nothing_behind(node: Node) -> None:
    node.create(partitions=MANY)

    async def give_up() -> None:
        task = waiting.start(fetch.handle(request(*[0] * MANY, max_wait_ms=60_000), node.call(12)), node.loop)
        while not len(node.replicas.purgatory):
            await asyncio.sleep(0)
        assert node.connection.held == 1
        task.cancel()
        await asyncio.wait([task])
        await nobody_waits(node)

    node.run(give_up())
    assert node.connection.held == 0


def test_every_step_of_a_fetch_of_many_partitions_takes_several_turns(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps: begin to wait, end the wait, report changes, change a session, refuse."""
    node.create(partitions=MANY)
    turn = [0]
    done: Counter[tuple[str, int]] = Counter()

    def count(owner: Any, name: str, size: Callable[..., int]) -> None:
        plain = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            done[name, turn[0]] += size(*arguments)
            return plain(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    for owner, name in ((Purgatory, "watch"), (Purgatory, "unwatch"), (fetch_session, "has_news")):
        count(owner, name, lambda *_: 1)
    count(fetch, "PartitionData", lambda *_: 1)
    count(FetchSession, "update", lambda session, changed, forgotten: len(list(changed)) + len(list(forgotten)))

    def next_turn() -> None:
        turn[0] += 1

    async def ask(asked: Any) -> Any:
        return await waiting.start(fetch.handle(asked, node.call(12)), node.loop)

    with at_each_turn(node.loop, next_turn):
        session = node.run(ask(request(*[0] * MANY, session_epoch=0))).session_id
        task = begun(node, request(*[0] * MANY, session_id=session, session_epoch=1, max_wait_ms=60_000))
        node.append(b"x", index=0)
        assert [row[2] for row in told(node.run(task))] == [0]
        node.run(nobody_waits(node))
        less = request(session_id=session, session_epoch=2)
        less.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=list(range(MANY - 1)))]
        assert not node.run(ask(less)).error_code
        assert node.replicas.sessions.partitions == 1
        stranger = request(*[0] * MANY)
        stranger.replica_id = 5
        [refused] = node.run(ask(stranger)).responses
        assert [each.error_code for each in refused.partitions] == [fetch.errors.TopicAuthorizationFailed.code] * MANY
    assert {name for name, _ in done} == {"watch", "unwatch", "has_news", "PartitionData", "update"}
    assert max(done.values()) <= 4, done.most_common(3)


def test_the_number_of_partitions_that_waiting_fetches_watch_is_limited(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit, the fetch that has waited longest is answered. Fetches of few partitions do not count."""
    monkeypatch.setattr(purgatory, "MOST_WATCHED", 2 * MANY)
    node.create(partitions=MANY)
    few = node.ask(fetch, request(0, max_wait_ms=60_000), 12)
    first, second, third = (begun(node, request(*[0] * MANY, max_wait_ms=60_000)) for _ in range(3))
    assert not node.run(first).error_code
    assert [each.done() for each in (few, second, third)] == [False] * 3
    monkeypatch.setattr(fetch, "PIECE", 100)
    fourth = node.ask(fetch, request(0, 0, 0, max_wait_ms=60_000), 12)
    assert not node.run(second).error_code
    assert [each.done() for each in (few, third, fourth)] == [False] * 3
    for each in (few, third, fourth):
        each.cancel()
    node.run(nobody_waits(node))


def test_a_record_appended_between_two_turns_of_a_fetch_ends_its_wait(node: Node) -> None:
    node.create(partitions=MANY)
    session = node.ask(fetch, request(*[0] * MANY, session_epoch=0), 12).session_id
    again = request(session_id=session, session_epoch=1, max_wait_ms=60_000)

    async def ask() -> Any:
        task = waiting.start(fetch.handle(again, node.call(12)), node.loop)
        node.append(b"x", index=0)  # the first turn has read it
        return await asyncio.wait_for(task, 20)

    assert [row[2] for row in told(node.run(ask())) if row[5]] == [0]


def test_other_tasks_run_between_the_turns_of_a_fetch_of_many_partitions(node: Node) -> None:
    node.create(partitions=MANY)
    rounds: list[int] = []

    with at_each_turn(node.loop, lambda: rounds.append(1)):
        response = node.ask(fetch, request(*[0] * MANY), 12)
    assert len(rounds) > 6
    assert len(partitions(response)) == MANY


def test_a_fetch_of_unknown_partitions_leaves_nothing_to_the_garbage_collector(node: Node) -> None:
    with leaves_nothing(PartitionRead):
        node.ask(fetch, request(*[0] * MANY), 12)


def test_the_number_of_partitions_in_fetch_sessions_is_limited(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MOST_PARTITIONS", MANY + 2)
    node.create(partitions=MANY)
    sessions = node.replicas.sessions
    first = node.ask(fetch, request(*[0] * MANY, session_epoch=0), 12).session_id
    assert node.ask(fetch, request(0, 0, 0, session_epoch=0), 12).session_id == fetch_session.NO_SESSION
    small = node.ask(fetch, request(0, session_epoch=0), 12).session_id
    assert (first > 0, small > 0, sessions.partitions) == (True, True, MANY + 1)
    grown = node.ask(fetch, request(0, 0, 0, session_id=small, session_epoch=1), 12)
    assert grown.error_code == fetch.errors.FetchSessionIdNotFound.code
    assert (len(sessions), sessions.partitions) == (1, MANY)
    node.clock.advance(fetch_session.EVICTION_MS + 1)
    assert node.ask(fetch, request(0, 0, 0, session_epoch=0), 12).session_id > 0
    assert (len(sessions), sessions.partitions) == (1, 3)
    node.ask(fetch, request(session_id=next(iter(sessions._sessions)), session_epoch=-1), 12)
    assert (len(sessions), sessions.partitions) == (0, 0)
