"""The loop in a thread: results, interrupts, forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from pyclient.core.runner import Runner
from pyclient.errors import ClientClosed, ClientForked


@pytest.fixture
def runner():
    made = Runner()
    yield made
    made.stop()


async def answer(value: object) -> object:
    return value


def test_work_runs_in_the_thread_of_the_runner(runner):
    async def where() -> str:
        return threading.current_thread().name

    assert runner.run(where()) == "pyclient-io"


def test_an_error_of_the_work_is_raised_here(runner):
    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        runner.run(fail())


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


def test_the_wait_has_a_timeout(runner):
    with pytest.raises(TimeoutError):
        runner.run(asyncio.Event().wait(), timeout=0.01)


def test_a_callback_that_would_wait_for_itself_is_told(runner):
    async def nested() -> None:
        runner.run(answer(1))

    with pytest.raises(RuntimeError, match="wait for itself"):
        runner.run(nested())


def test_after_stop_nothing_runs():
    runner = Runner()
    runner.stop()
    runner.stop()
    with pytest.raises(ClientClosed):
        runner.run(answer(1))
    with pytest.raises(ClientClosed):
        runner.call(print)


def test_a_forked_child_is_told(runner):
    child = os.fork()
    if child == 0:
        try:
            runner.run(answer(1))
        except ClientForked:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert runner.run(answer(2)) == 2
