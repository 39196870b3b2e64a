"""Cancels a coroutine at its first step, then at its second, and so on until it ends before. Steps are counted, not
timed. Each step is cancelled twice: during its wait, and when the wait has its result.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from harness.faults.cancelling import cancelled_at
from pyclient.errors import KafkaError
from pyclient.tests.support import PATIENCE_S

MOST_STEPS = 500
"""More steps than any call here takes."""


async def nothing() -> None:
    """Does nothing, because most calls need nothing afterwards."""


async def at_each_step(
    operation: Callable[[], Coroutine[Any, Any, object]], after: Callable[[], Awaitable[object]] = nothing
) -> int:
    """Cancels the operation at each of its steps, and calls ``after`` each time. At last, lets it end twice. Returns
    how often the operation was cancelled.
    """
    cancellations = 0
    for is_late in (False, True):
        for step in itertools.count(1):
            assert step < MOST_STEPS
            was_cancelled, _ = await cancelled_at(step, operation, is_late, may_raise=KafkaError)
            cancellations += was_cancelled
            await after()
            if not was_cancelled:
                break
    return cancellations


def run(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Runs the coroutine on a new loop. Checks that it leaves no task and no unhandled exception."""
    told: list[object] = []
    gc.collect()  # what other tests have left warns before

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        await work()
        async with asyncio.timeout(PATIENCE_S):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert not told
    assert not [each for each in warned if issubclass(each.category, RuntimeWarning | ResourceWarning)]
