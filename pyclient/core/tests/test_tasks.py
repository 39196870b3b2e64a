"""Background tasks, which no caller awaits."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyclient.core.tasks import ended, watched
from pyclient.errors import ClientClosed, ClientError, KafkaError


async def told_of(error: BaseException | None) -> list[KafkaError]:
    async def work() -> None:
        if error is not None:
            raise error

    told: list[KafkaError] = []
    task = watched(asyncio.get_running_loop(), work(), "the work", told.append)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    return told


def test_an_error_of_the_client_is_reported_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    error = ClientClosed()
    assert asyncio.run(told_of(error)) == [error]
    assert not caplog.records


def test_an_unexpected_exception_is_logged_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    (told,) = asyncio.run(told_of(KeyError("k")))
    assert isinstance(told, ClientError)
    assert isinstance(told.__cause__, KeyError)
    assert str(told) == "the work failed: KeyError('k')"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.ERROR, "the work failed")]


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
def test_a_task_that_ends_or_is_cancelled_is_not_a_fault(error: BaseException | None) -> None:
    assert asyncio.run(told_of(error)) == []


async def forever() -> None:
    await asyncio.Event().wait()


def test_a_wait_for_the_end_of_a_task_can_be_cancelled() -> None:
    """Even in the same iteration of the loop in which the task ends with CancelledError."""

    async def work() -> None:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)

        async def wait() -> None:
            await ended(task)
            await forever()

        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiter.cancel()
        done, _ = await asyncio.wait([waiter], timeout=30)
        assert done, "the cancellation is lost"
        assert waiter.cancelled()
        assert task.cancelled()

    asyncio.run(work())


def test_waiting_for_a_task_raises_unexpected_exceptions_only() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def work(error: Exception) -> None:
        task = asyncio.create_task(fail(error))
        await asyncio.sleep(0)
        await ended(task)

    asyncio.run(work(ClientClosed()))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(work(ZeroDivisionError()))
