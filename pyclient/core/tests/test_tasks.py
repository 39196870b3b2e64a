"""Tasks that nobody awaits."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyclient.core.tasks import watched
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


def test_an_error_of_the_client_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    error = ClientClosed()
    assert asyncio.run(told_of(error)) == [error]
    assert not caplog.records


def test_a_fault_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    (told,) = asyncio.run(told_of(KeyError("k")))
    assert isinstance(told, ClientError)
    assert isinstance(told.__cause__, KeyError)
    assert str(told) == "the work failed: KeyError('k')"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.ERROR, "the work failed")]


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
def test_an_end_is_no_fault(error: BaseException | None) -> None:
    assert asyncio.run(told_of(error)) == []
