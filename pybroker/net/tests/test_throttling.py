"""Clients that exceed their quotas: when they get responses, and when the server reads from them again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.net.quotas.throttling import Throttling, _timed
from pybroker.net.tests.harness import ECHO, WAIT, WORK, Answer, Harness, frame, scenario, turns
from pybroker.quotas.client_quotas import ClientQuotas
from pybroker.quotas.keys import DEFAULT, PRODUCE, Entity
from pybroker.quotas.rate import Windows


class Told:
    """A response with a throttle time."""

    def __init__(self, throttle_time_ms: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms


class Loop:
    """An event loop whose timers fire on command."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, do: Any, *arguments: Any) -> Any:
        timer = SimpleNamespace(when=lambda: when, do=lambda: do(*arguments))
        timer.cancel = lambda: self.timers.remove(timer)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each in self.timers if each.when() <= self.now]:
            self.timers.remove(timer)
            timer.do()


class Connection:
    """A client's connection; ``held`` while the server does not read from it."""

    def __init__(self, user: str = "alice", broker_id: int | None = None, sasl: Any = None) -> None:
        self.principal = f"User:{user}"
        self.broker_id = broker_id
        self.sasl = sasl
        self.authentication = None
        self.share: Any = None
        self.held = 0
        self.closed = False

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class Throttled:
    """A server's quotas, with a clock that the test controls."""

    client_id = "app"

    def __init__(self, **bounds: float) -> None:
        self.loop: Any = Loop()
        self.quotas = ClientQuotas(Windows(), Windows())
        self.quotas.update({Entity("alice"): bounds, Entity("carol"): {PRODUCE: 1.0}})
        self.throttling = Throttling(self.quotas, self.loop)

    def ask(self, connection: Connection, size: int, response: Any = None, *, produces: bool = True) -> Any:
        route: Any = SimpleNamespace(produces=produces)
        call = SimpleNamespace(connection=connection, client_id=self.client_id)
        share = connection.share
        if share is not None and share.is_within(produces, response, size, self.loop.time()):
            return response  # as ``connection.Connection`` does
        return self.throttling.count(route, response, call, size)

    def spend(self, connection: Connection, seconds: float) -> None:
        self.throttling.spent(SimpleNamespace(connection=connection, client_id=self.client_id), seconds)


def test_a_producer_over_its_quota_is_answered_and_then_muted_until_its_rate_meets_the_quota() -> None:
    server, alice = Throttled(producer_byte_rate=1000), Connection()
    assert server.ask(alice, 10_000, Told()).throttle_time_ms == 0
    assert alice.held == 0
    assert server.ask(alice, 2000, Told()).throttle_time_ms == 2000
    assert alice.held == 1
    server.loop.advance(1.999)
    assert alice.held == 1
    server.loop.advance(0.001)
    assert alice.held == 0
    assert server.loop.timers == []


def test_only_produce_requests_count_towards_producer_byte_rate() -> None:
    server, alice = Throttled(producer_byte_rate=1000), Connection()
    assert server.ask(alice, 1_000_000, Told(), produces=False).throttle_time_ms == 0
    assert alice.held == 0


def test_a_producer_with_acks_0_is_muted_when_it_exceeds_its_quota() -> None:
    server, alice = Throttled(producer_byte_rate=1000), Connection()
    assert server.ask(alice, 20_000) is None
    assert alice.held == 1


def test_a_client_that_exceeds_two_quotas_is_throttled_for_the_longer_time() -> None:
    server, alice = Throttled(producer_byte_rate=1000, request_percentage=1), Connection()
    assert server.ask(alice, 0, Told()).throttle_time_ms == 0
    server.spend(alice, 0.6)
    assert server.ask(alice, 10_500, Told()).throttle_time_ms == 1000
    assert server.ask(alice, 10_500, Told()).throttle_time_ms == 11_000
    assert server.ask(alice, 1, Told(25_000), produces=False).throttle_time_ms == 25_000
    assert server.ask(alice, 1, Told(), produces=False).throttle_time_ms == 1000
    assert alice.held == len(server.loop.timers) == 1
    server.loop.advance(24.9)
    assert alice.held == 1
    server.loop.advance(0.2)
    assert alice.held == 0


@pytest.mark.parametrize("client_id", ["app", "x" * 300])
def test_a_client_over_its_request_percentage_is_throttled_at_its_next_request(client_id: str) -> None:
    server, alice = Throttled(request_percentage=1), Connection()
    server.client_id = client_id
    assert server.throttling.counts_time
    assert server.ask(alice, 1, Told(), produces=False).throttle_time_ms == 0
    server.spend(alice, 0.105)
    server.loop.advance(0.0)
    assert server.ask(alice, 1, Told(), produces=False).throttle_time_ms == 500
    server.loop.advance(0.5)
    assert server.ask(alice, 1, Told(), produces=False).throttle_time_ms == 0


def test_a_response_without_throttle_time_ms_still_mutes_its_connection() -> None:
    server, alice = Throttled(producer_byte_rate=1000), Connection()
    server.ask(alice, 20_000, object())
    assert alice.held == 1


@pytest.mark.parametrize("exempt", [Connection(broker_id=2), Connection(sasl=SimpleNamespace(is_known=False))])
def test_brokers_and_clients_that_have_not_authenticated_yet_are_not_throttled(exempt: Connection) -> None:
    server = Throttled(producer_byte_rate=1, request_percentage=1)
    assert server.ask(exempt, 1_000_000, Told()).throttle_time_ms == 0
    assert exempt.held == 0
    assert server.ask(Connection(), 1, Told()).throttle_time_ms == 0


def test_a_closed_connection_leaves_no_throttle_timer() -> None:
    server, alice = Throttled(producer_byte_rate=1), Connection()
    server.ask(alice, 1_000_000, Told())
    alice.closed = True
    server.throttling.forget(alice)
    assert server.loop.timers == []
    server.ask(alice, 1_000_000, Told())
    assert server.loop.timers == []


def test_new_quotas_unmute_all_throttled_clients() -> None:
    server, alice, carol = Throttled(producer_byte_rate=1), Connection(), Connection("carol")
    for connection in (alice, carol):
        server.ask(connection, 1_000_000, Told())
    server.throttling.unmute_all()
    assert (alice.held, carol.held, server.loop.timers) == (0, 0, [])


def test_the_later_steps_of_a_handler_count_as_request_time_and_its_waits_do_not() -> None:
    async def main() -> None:
        steps: list[float] = []
        waited = asyncio.get_running_loop().create_future()

        async def work() -> int:
            await waited
            with pytest.raises(ZeroDivisionError):
                await failing
            return 5

        failing = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(_awaited(_timed(work(), steps.append)))
        await turns()
        assert steps == []
        waited.set_result(None)
        await turns()
        assert len(steps) == 1
        failing.set_exception(ZeroDivisionError())
        assert await task == 5
        assert len(steps) == 2

        cancelled = asyncio.get_running_loop().create_future()

        async def waits() -> None:
            await cancelled

        task = asyncio.ensure_future(_awaited(_timed(waits(), steps.append)))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled.cancelled()

    asyncio.run(main())


async def _awaited(what: Any) -> Any:
    return await what


def with_quotas(harness: Harness, **bounds: float) -> Throttling:
    """Gives all clients of the harness these quotas together."""
    quotas = ClientQuotas(Windows(), Windows())
    quotas.update({Entity("ANONYMOUS"): bounds, Entity(DEFAULT): {PRODUCE: 1.0}})
    throttling = Throttling(quotas, harness.loop)
    harness.server.throttle(throttling)
    return throttling


@scenario()
async def test_a_throttled_connection_is_read_again_when_its_quota_is_removed(harness: Harness) -> None:
    client = await harness.connect()
    assert await client.ask(ECHO, 1) == (1, b"")
    with_quotas(harness, request_percentage=0.000001)
    assert await client.ask(ECHO, 2) == (2, b"")  # its visit counts from now on
    assert await client.ask(ECHO, 3, b"third") == (3, b"third")
    client.send(ECHO, 4, b"fourth")
    await turns()
    assert harness.seen[-1] == b"third"
    harness.loop.ahead_s += 1.5
    harness.server.throttle(None)
    assert await client.receive() == (4, b"fourth")


@scenario()
async def test_a_delayed_response_mutes_its_connection_if_the_client_exceeds_its_quota(harness: Harness) -> None:
    throttling = with_quotas(harness, request_percentage=0.000001)
    client = await harness.connect()
    client.send(WAIT, 1)
    client.send(WORK, 2, b"in steps")
    await harness.until(lambda: len(harness.waiting) == 2)
    await turns()
    harness.waiting[1].set_result(b" and done")
    harness.waiting[0].set_result(Answer(b"first"))
    assert await client.receive() == (1, b"first")
    assert await client.receive() == (2, b"in steps and done")
    await harness.until(lambda: throttling._muted)
    client.reset()
    await harness.until(lambda: not harness.server.connections)
    assert throttling._muted == {}


def test_a_connection_obeys_a_changed_quota_at_its_next_request() -> None:
    server, alice = Throttled(producer_byte_rate=1000), Connection()
    assert server.ask(alice, 10_000, Told()).throttle_time_ms == 0
    kept = alice.share
    assert kept.is_current
    server.quotas.update({Entity("alice"): {PRODUCE: 500.0}})
    assert server.ask(alice, 1, Told()).throttle_time_ms == 10_002
    assert not kept.is_current
    assert alice.share.produce.bound == 500
    server.quotas.update({})
    assert server.ask(alice, 50_000, Told()).throttle_time_ms == 0
    assert alice.share.produce is None


def test_a_connection_that_may_belong_to_a_broker_caches_no_quota() -> None:
    server, alice = Throttled(producer_byte_rate=1000), Connection()
    alice.authentication = object()
    assert server.ask(alice, 12_000, Told()).throttle_time_ms == 2000
    assert alice.share is None


@scenario()
async def test_a_request_with_another_client_id_does_not_use_the_cached_quota(harness: Harness) -> None:
    throttling = with_quotas(harness, request_percentage=50.0)
    client = await harness.connect()
    [connection] = harness.server.connections
    assert await client.ask(ECHO, 1) == (1, b"")
    first = connection.share
    assert await client.ask(ECHO, 2) == (2, b"")
    assert connection.share is first is not None
    client.writer.write(frame(ECHO, 3, b"").replace(b"test", b"else"))
    assert await client.receive() == (3, b"")
    assert connection.share is not first
    assert len(throttling._quotas.known) == 2


@scenario()
async def test_a_waiting_request_with_quotas_is_cancelled_when_its_connection_closes(harness: Harness) -> None:
    with_quotas(harness, producer_byte_rate=1.0)
    client = await harness.connect()
    client.send(WAIT, 1)
    await harness.until(lambda: harness.waiting)
    client.reset()
    await harness.until(lambda: harness.waiting[0].cancelled())
