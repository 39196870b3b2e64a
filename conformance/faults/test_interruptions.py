"""Interrupts calls by signals, cancellations and closes, in short; the long form is ``tox -e campaign --
interruptions``.
"""

from __future__ import annotations

import asyncio

import pytest

from conformance.faults.campaigns import interruptions
from conformance.faults.test_kill import seed
from harness.faults.cancelling import cancelled_at, stepping
from harness.servers.brokers import Broker

__all__ = ["seed"]
pytestmark = pytest.mark.nightly


def test_a_signal_handler_may_wake_a_consumer_at_any_moment(broker: Broker, seed: int) -> None:
    told = interruptions.signalled(broker.bootstrap, f"signalled-{seed}", 2_000, seed)
    assert "polls were ended" in told


def test_calls_that_are_cancelled_at_any_step_leave_a_client_that_works(broker: Broker, seed: int) -> None:
    told = interruptions.cancelled(broker.bootstrap, f"cancelled-{seed}", 300)
    assert "calls were cancelled" in told


def test_a_client_may_be_closed_while_other_threads_call_it(broker: Broker, seed: int) -> None:
    told = interruptions.closed(broker.bootstrap, f"closed-{seed}", 30, seed)
    assert "30 clients were closed" in told


def test_the_harness_cancels_a_call_at_the_named_step() -> None:
    """The campaign would find nothing if it never reached a defect."""
    come_to: list[int] = []

    async def three_steps() -> None:
        for step in (1, 2):
            come_to.append(step)
            await asyncio.sleep(0)
        come_to.append(3)

    async def work() -> None:
        for step in (1, 2, 3, 4):
            come_to.clear()
            was_cancelled, _ = await cancelled_at(step, three_steps)
            assert was_cancelled == (step <= 3)
            assert come_to == [1, 2, 3][: min(step, 3)]

    asyncio.run(work())


@pytest.mark.parametrize("swallowed", ["CancelledError", "nothing"])
def test_a_call_that_swallows_its_cancellation_is_found(swallowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.faults.cancelling.PATIENCE_S", 0.3)

    async def deaf() -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if swallowed == "nothing":
                raise
        await asyncio.Event().wait()

    async def work() -> None:
        was_cancelled, _ = await cancelled_at(1, deaf)
        assert was_cancelled

    if swallowed == "nothing":
        asyncio.run(work())
        return
    with pytest.raises(AssertionError, match="hangs"):
        asyncio.run(work())


def test_the_harness_resumes_a_call_with_the_awaited_result() -> None:
    async def answer() -> int:
        return await asyncio.sleep(0, 2) + await asyncio.sleep(0.001, 3)

    async def work() -> int:
        found: int = await stepping(answer(), 100, lambda: None)
        return found

    assert asyncio.run(work()) == 5
