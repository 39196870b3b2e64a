"""Fetches of clients with a quota: the records that they get, and their throttle time."""

from __future__ import annotations

from typing import Any

from pybroker.handlers import fetch
from pybroker.handlers.fetch import PIECE
from pybroker.handlers.tests.harness import Node
from pybroker.handlers.tests.test_fetch import ask, partitions, request
from pybroker.quotas.client_quotas import ClientQuotas
from pybroker.quotas.keys import FETCH, Entity
from pybroker.quotas.rate import Windows
from pybroker.replication.tests.harness import values
from pyclient.protocol import errors

VALUE = b"v" * 1000


def limit(node: Node, bound: float) -> None:
    node.quotas = ClientQuotas(Windows(), Windows())
    node.quotas.update({Entity("alice"): {FETCH: bound}})


def told(response: Any) -> tuple[int, list[int]]:
    """Returns the throttle time and the records of each partition."""
    return response.throttle_time_ms, [len(values(each.records)) for each in partitions(response)]


def test_a_fetch_within_its_quota_is_answered_as_without_a_quota(node: Node) -> None:
    node.create()
    node.append(VALUE)
    limit(node, 1000)
    assert told(ask(node, 12, 0)) == (0, [1])
    node.quotas.update({})
    assert told(ask(node, 12, 0)) == (0, [1])


def test_a_fetch_over_its_quota_returns_no_records_and_uses_no_quota(node: Node) -> None:
    node.create()
    for _ in range(10):
        node.append(VALUE)
    limit(node, 1000)
    delay_ms, counts = told(ask(node, 12, 0))
    assert (delay_ms, counts) == (0, [9])  # as many as all windows but one allow
    delay_ms, counts = told(ask(node, 12, 0))
    assert counts == []
    assert delay_ms > 9000
    assert told(ask(node, 12, 0)) == (delay_ms, [])
    node.clock.advance(11_000)
    assert told(ask(node, 12, 0)) == (0, [9])


def test_a_batch_larger_than_the_quota_is_returned_and_throttles_its_client(node: Node) -> None:
    node.create()
    node.append(VALUE * 20)
    limit(node, 1000)
    delay_ms, counts = told(ask(node, 12, 0))
    assert counts == [1]
    assert 10_000 < delay_ms < 11_000
    assert told(ask(node, 12, 0))[1] == []


def test_a_fetch_session_returns_records_later_that_the_quota_held_back(node: Node) -> None:
    node.create()
    node.append(VALUE * 8)
    limit(node, 1000)
    opened = ask(node, 12, 0, session_epoch=0)
    assert told(opened)[1] == [1]
    node.append(VALUE * 8)
    session = {"session_id": opened.session_id}
    assert told(ask(node, 12, 1, session_epoch=1, **session))[1] == []
    empty = ask(node, 12, session_epoch=2, **session)
    assert (empty.session_id, empty.responses, empty.error_code) == (opened.session_id, [], 0)
    node.clock.advance(11_000)
    assert told(ask(node, 12, session_epoch=3, **session)) == (0, [1])
    assert ask(node, 12, session_epoch=2, **session).error_code == errors.InvalidFetchSessionEpoch.code


def test_a_fetch_over_its_quota_begins_no_session(node: Node) -> None:
    node.create()
    node.append(VALUE * 9)
    limit(node, 1000)
    ask(node, 12, 0)
    put_off = ask(node, 12, 0, session_epoch=0)
    assert told(put_off)[1] == []
    assert put_off.session_id == 0
    assert len(node.replicas.sessions) == 0


def test_a_fetch_of_many_partitions_has_the_same_quota(node: Node) -> None:
    node.create(partitions=2)
    node.append(VALUE * 9)
    limit(node, 1000)
    many = [0] * (PIECE + 1)
    first, second = node.run(ask_many(node, many)), node.run(ask_many(node, many))
    assert first.throttle_time_ms == 0
    assert second.throttle_time_ms > 0
    assert second.responses == []


async def ask_many(node: Node, offsets: list[int]) -> Any:
    return await fetch.handle(request(*offsets), node.call(12))


def test_the_fetches_of_a_follower_are_not_throttled(node: Node) -> None:
    node.create()
    node.append(VALUE)
    limit(node, 1)
    node.connection.broker_id = 2
    for _ in range(3):
        assert ask(node, 12, 0, replica_id=2).throttle_time_ms == 0
