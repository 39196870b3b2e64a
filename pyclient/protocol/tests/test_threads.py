"""Functions on other threads: the loop gets their result or exception."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyclient.protocol.threads import on_thread


def test_the_result_of_a_function_on_another_thread_is_returned() -> None:
    async def work() -> int:
        return await on_thread(asyncio.get_running_loop(), "t", threading.get_ident)

    assert asyncio.run(work()) != threading.get_ident()


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(OSError("x"), OSError), (SystemExit(1), RuntimeError), (StopIteration(), RuntimeError)],
)
def test_an_exception_on_the_thread_is_raised_in_the_coroutine(raised: BaseException, kind: type[Exception]) -> None:
    def fail() -> None:
        raise raised

    async def work() -> None:
        with pytest.raises(kind):
            await on_thread(asyncio.get_running_loop(), "t", fail)

    asyncio.run(work())


def test_a_cancelled_wait_lets_the_thread_finish() -> None:
    go, done = threading.Event(), threading.Event()

    def wait() -> None:
        go.wait()
        done.set()

    async def work() -> None:
        waiting = asyncio.ensure_future(on_thread(asyncio.get_running_loop(), "t", wait))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(work())
    go.set()
    assert done.wait(30)
