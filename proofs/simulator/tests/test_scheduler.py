"""Checks what the loops of simulated processes report to a history."""

from __future__ import annotations

import gc
import sys
from random import Random

import pytest

from proofs.simulator.machines.broker import SimulatedBroker
from proofs.simulator.machines.environment import patched
from proofs.simulator.machines.scheduler import ProcessLoop, Scheduler
from proofs.simulator.world import drawn, run
from pyclient.protocol.errors import NotController

STEP_S = 0.1
"""A step of the simulated clock."""


@pytest.fixture
def loop() -> ProcessLoop:
    return ProcessLoop(Scheduler(Random(0)), "a process")


async def fail(error: Exception) -> None:
    raise error


def test_an_exception_of_a_task_that_nobody_awaits_is_reported(loop: ProcessLoop) -> None:
    """asyncio reports it in the task's finalizer, and Python ignores what a finalizer raises."""
    loop.start(fail(ValueError("one")))
    loop.start(fail(NotController("an answer")))
    loop.scheduler.run(1.0)
    with pytest.raises(ValueError, match="one"):
        loop.scheduler.check_tasks()
    loop.scheduler.close()


def test_an_exception_of_a_dead_process_is_ignored(loop: ProcessLoop) -> None:
    task = loop.start(fail(ValueError()))
    loop.scheduler.run(1.0)
    assert task.done()
    loop.kill()
    loop.scheduler.check_tasks()
    loop.scheduler.close()


def test_a_failure_reported_by_a_finalizer_ends_the_history(loop: ProcessLoop) -> None:
    loop.call_soon(lambda: loop.create_future().set_exception(ValueError("of a future that goes")))
    loop.call_later(STEP_S, int)
    with pytest.raises(ValueError, match="of a future"):
        loop.scheduler.run(1.0)


def test_an_exception_in_a_background_task_of_a_broker_is_a_violation() -> None:
    serve = SimulatedBroker._serve

    def serve_and_fail(broker: SimulatedBroker) -> None:
        serve(broker)
        broker.process.loop.create_task(fail(ValueError("in the background")))

    with patched([(SimulatedBroker, "_serve", serve_and_fail)]):
        outcome = run(0, drawn(0, ""))
    assert outcome.invariant == "crash"
    assert "in the background" in outcome.text


def test_a_failed_task_of_an_ended_history_is_not_reported(
    loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the audit of one group fails, nobody awaits that of the other."""
    unheard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)
    tasks = [loop.start(fail(ValueError())), loop.start(fail(ValueError()))]
    loop.scheduler.run(1.0)
    assert tasks[0].exception()
    loop.scheduler.close()
    del tasks
    gc.collect()
    assert unheard == []
