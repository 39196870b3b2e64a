"""The lease of an event loop: which thread may run it, and when the lease ends."""

from __future__ import annotations

import asyncio
import threading
from threading import get_ident

import pytest

from pyclient.core.threads import lease as module
from pyclient.core.threads.runner import Runner

PATIENCE_S = 60.0


@pytest.fixture
def runner(monkeypatch):
    """Returns a runner whose leases end only when they are recalled, not by time."""
    monkeypatch.setattr(module, "LONGEST", PATIENCE_S)
    monkeypatch.setattr(module, "UNUSED", PATIENCE_S)
    made = Runner()
    yield made
    made.stop()


async def here() -> int:
    return get_ident()


def lent(runner: Runner) -> bool:
    """Offers the lease to this thread and waits until the thread has it, or the loop has resumed."""
    taken = threading.Event()

    def offer() -> None:
        runner.lease.offer(get_ident_of_test)
        runner.loop.call_soon(runner.loop.call_soon, taken.set)

    get_ident_of_test = get_ident()
    runner.loop.call_soon_threadsafe(offer)  # `runner.call` would make it void
    while not taken.is_set():
        if runner.lease.enter():
            return True
        taken.wait(0.001)
    return False


def test_the_loop_waits_while_another_thread_runs_it_and_resumes_when_called(runner):
    ended = threading.Event()
    runner.lease.on_end = ended.set
    assert lent(runner)
    assert runner.is_here
    future = asyncio.run_coroutine_threadsafe(here(), runner.loop)
    runner.lease.recall()
    assert not ended.is_set()
    runner.lease.leave()
    assert not runner.is_here
    assert future.result(PATIENCE_S) not in (0, get_ident())
    assert ended.wait(PATIENCE_S)


def test_nobody_enters_after_a_recall(runner):
    assert lent(runner)
    runner.lease.leave()
    runner.lease.recall()
    assert not runner.lease.enter()


@pytest.mark.parametrize("wanted", [lambda one: one.run(here()), lambda one: one.call(print), Runner.stop])
def test_any_thread_that_calls_the_loop_gets_it_back(runner, wanted):
    assert lent(runner)
    runner.lease.leave()
    wanted(runner)
    assert not runner.lease.enter()


def test_another_thread_cannot_enter(runner):
    assert lent(runner)
    runner.lease.leave()
    entered = []
    other = threading.Thread(target=lambda: entered.append(runner.lease.enter()))
    other.start()
    other.join()
    assert entered == [False]


def test_an_offer_is_void_after_another_call(runner):
    ident = get_ident()

    async def offer_and_call() -> None:
        runner.lease.offer(ident)
        runner.call(lambda: None)

    runner.run(offer_and_call())
    runner.run(here())
    assert not runner.lease.enter()


def test_a_lease_ends_when_it_is_not_used(runner, monkeypatch):
    monkeypatch.setattr(module, "UNUSED", 0.001)
    ended = threading.Event()
    runner.lease.on_end = ended.set
    if lent(runner):  # else it has ended already
        runner.lease.leave()
    assert ended.wait(PATIENCE_S)
    assert not runner.lease.enter()


def test_a_lease_ends_although_it_is_used(runner, monkeypatch):
    monkeypatch.setattr(module, "UNUSED", 0.001)
    monkeypatch.setattr(module, "LONGEST", 0.01)
    ended = threading.Event()
    runner.lease.on_end = ended.set
    lent(runner) and runner.lease.leave()
    while not ended.is_set():
        runner.lease.enter() and runner.lease.leave()
    assert not runner.lease.enter()


def test_a_loop_in_debug_mode_is_not_lent(runner):
    runner.loop.set_debug(True)
    assert not lent(runner)
