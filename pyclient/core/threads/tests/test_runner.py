"""The loop in a thread: results, interrupts, forks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import weakref
from types import ModuleType

import pytest

from pyclient.core.threads.runner import Runner
from pyclient.errors import ClientClosed, ClientError, ClientForked, RequestTimedOut
from pyclient.tests.support import PATIENCE_S, in_time
from pyclient.tests.test_processes import in_child


@pytest.fixture
def runner():
    made = Runner()
    yield made
    made.stop()


def test_threads_patched_by_gevent_are_refused_and_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkey = ModuleType("gevent.monkey")
    monkey.is_module_patched = lambda name: name == "threading"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    with pytest.raises(ClientError, match=r"gevent.*patch_all\(thread=False\)"):
        Runner()


async def answer(value: object) -> object:
    return value


def test_coroutines_run_in_the_thread_of_the_runner(runner):
    async def where() -> str:
        return threading.current_thread().name

    assert runner.run(where()) == "pyclient-io"


def test_an_error_of_a_coroutine_is_raised_in_the_calling_thread(runner):
    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        runner.run(fail())


@pytest.mark.nightly
def test_ctrl_c_ends_the_wait_and_cancels_the_work(runner):
    cancelled = threading.Event()

    async def work() -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        runner.run(work())
    assert cancelled.wait(5)
    assert runner.run(answer(1)) == 1


def test_the_wait_for_a_coroutine_has_a_timeout(runner):
    with pytest.raises(TimeoutError):
        runner.run(asyncio.Event().wait(), timeout=0.01)


def test_a_thread_that_looks_dead_is_not_taken_for_a_closed_client(monkeypatch):
    """Before Python 3.13 ``is_alive`` is false for good once the handler of a signal has raised in it."""
    runner = Runner()
    try:
        monkeypatch.setattr(runner._thread, "is_alive", lambda: False)
        assert runner.run(asyncio.sleep(0, "alive")) == "alive"
    finally:
        runner.stop()


def test_a_callback_that_would_wait_for_itself_raises_an_error(runner):
    async def nested() -> None:
        runner.run(answer(1))

    with pytest.raises(RuntimeError, match="wait for itself"):
        runner.run(nested())


def test_nothing_runs_after_stop():
    runner = Runner()
    runner.stop()
    runner.stop()
    with pytest.raises(ClientClosed):
        runner.run(answer(1))
    with pytest.raises(ClientClosed):
        runner.call(print)


@pytest.mark.nightly
def test_a_call_in_a_forked_child_raises_client_forked(runner):
    child = os.fork()
    if child == 0:
        try:
            runner.run(answer(1))
        except ClientForked:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert runner.run(answer(2)) == 2


@pytest.mark.parametrize("how", ["stopped", "closed"])
def test_a_call_after_the_last_iteration_of_the_loop_raises_an_error(monkeypatch, how):
    """Another thread stops the runner between the check and the call."""
    runner = Runner()
    check = runner.check

    def checked():
        check()
        if how == "closed":
            runner.stop()
        else:
            runner.loop.call_soon_threadsafe(runner.loop.stop)
            runner._thread.join()

    monkeypatch.setattr(runner, "check", checked)
    assert isinstance(in_time(lambda: runner.run(answer(1))), ClientClosed)
    runner.stop()


def test_a_running_call_raises_an_error_when_the_runner_stops(runner):
    entered = threading.Event()

    async def work() -> None:
        entered.set()
        await asyncio.Event().wait()

    stopper = threading.Timer(0, lambda: (entered.wait(), runner.stop()))
    stopper.start()
    assert isinstance(in_time(lambda: runner.run(work())), ClientClosed)
    stopper.join()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exception_that_stops_a_loop_does_not_stop_the_clients(runner, error):
    def fail():
        raise error

    async def work():
        raise error

    runner.call(fail)
    assert runner.run(answer(1)) == 1
    assert isinstance(in_time(lambda: runner.run(work())), error)
    assert runner.run(answer(2)) == 2


def test_a_wait_times_out_even_if_the_loop_is_blocked(runner, monkeypatch):
    monkeypatch.setattr("pyclient.core.threads.runner.GRACE_S", 0.1)
    released = threading.Event()
    runner.call(released.wait, 20)
    with pytest.raises(RequestTimedOut, match="is blocked by a callback"):
        runner.run(answer(1), within=0.1)
    released.set()
    assert runner.run(answer(2), within=PATIENCE_S) == 2


def test_a_call_cancelled_before_the_stop_may_complete():
    """An interrupted close can still leave the group."""
    runner = Runner()
    done = threading.Event()
    entered = threading.Event()

    async def work():
        try:
            entered.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            done.set()

    while not entered.is_set():  # nor may a slow machine cancel it before it begins
        with pytest.raises(TimeoutError):
            runner.run(work(), timeout=0.2)
    runner.stop()
    assert done.is_set()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_each_client_hears_of_a_fork_although_others_were_collected():
    class Owner:
        def hear(self) -> None: ...

    runners = [Runner() for _ in range(3)]
    for each in runners:
        gone = weakref.proxy(Owner())
        each.on_fork = lambda gone=gone: gone.hear()
    try:
        assert in_child(lambda: [each.forked for each in runners]) == "[True, True, True]"
        assert not any(each.forked for each in runners)
    finally:
        for each in runners:
            each.stop()
