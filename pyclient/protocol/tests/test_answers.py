"""A request whose callback completes a future."""

from __future__ import annotations

import asyncio

import pytest

from pyclient.protocol.answers import answer_on
from pyclient.protocol.errors import RequestTimedOut


def ended_by(response, error):
    async def work():
        answer, on_done = answer_on(asyncio.get_running_loop())
        on_done(response, error)
        return await answer

    return asyncio.run(work())


def test_a_response_is_awaited_and_an_error_raised():
    assert ended_by("response", None) == "response"
    assert ended_by(None, None) is None
    with pytest.raises(RequestTimedOut):
        ended_by(None, RequestTimedOut("late"))


@pytest.mark.parametrize("error", [None, RequestTimedOut("late")])
def test_a_response_after_a_cancellation_is_dropped(error):
    async def work():
        answer, on_done = answer_on(asyncio.get_running_loop())
        answer.cancel()
        on_done("response", error)
        return answer.cancelled()

    assert asyncio.run(work())
