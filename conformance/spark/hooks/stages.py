"""The stages of a batch at which a kill happens, and its victims: loaded into Spark's processes.

``armed`` in the control folder names a stage and a victim. The first process that reaches the stage claims it (the
stage is ``fired`` then) and kills the victim. That is the process itself (a Python worker of a task or of a commit),
the broker, or the driver. The driver is the JVM and the program that started it, and the worker if one does the
driver's work.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

TASK_STAGES = ("before the write", "in the write", "written")
CLAIM_STAGES = ("claiming", "claimed")
COMMIT_STAGES = ("before the commit", "before the decision", "decided", "between the ends", "ended")
STAGES = (*TASK_STAGES, *CLAIM_STAGES, *COMMIT_STAGES)
VICTIMS = ("worker", "driver", "broker")


def reach(stage: str) -> None:
    """Kills if this stage is armed."""
    control = Path(os.environ["PYBROKER_SPARK_KILLS"])
    armed = control / "armed"
    with contextlib.suppress(FileNotFoundError):
        wanted, victim = armed.read_text().split("\n")
        if wanted == stage:
            armed.rename(control / "fired")
            _kill(victim, control, with_me=stage in COMMIT_STAGES)


def _kill(victim: str, control: Path, *, with_me: bool) -> None:
    if victim == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    pid = int((control / victim).read_text())
    with contextlib.suppress(ProcessLookupError):
        (os.kill if victim == "broker" else os.killpg)(pid, signal.SIGKILL)
    if victim == "driver" and with_me:
        os.kill(os.getpid(), signal.SIGKILL)


def _around(owner: Any, name: str, before: str | None, after: str | None) -> None:
    inner: Callable[..., Any] = getattr(owner, name)

    def outer(*arguments: Any, **keywords: Any) -> Any:
        if before:
            reach(before)
        result = inner(*arguments, **keywords)
        if after:
            reach(after)
        return result

    setattr(owner, name, outer)


def _writer(module: Any) -> None:
    _around(module.ExactlyOnce, "_write", "before the write", "written")
    _around(module.Rows, "send", None, "in the write")


def _commits(module: Any) -> None:
    _around(module.Commits, "commit", "before the commit", "ended")
    _around(module.Commits, "_put_in_order", "claimed", None)


def _ledger(module: Any) -> None:
    inner = module.Ledger.append

    def append(self: Any, record: Any) -> None:
        if not record.decides:
            reach("claiming")
        elif record.transactions:
            reach("before the decision")
        inner(self, record)
        if record.transactions:
            reach("decided")

    module.Ledger.append = append


def _transactions(module: Any) -> None:
    inner = module.end

    def end(admin: Any, transactions: Any, *, commit: bool, timeout_s: float) -> Any:
        some = list(transactions)
        if not commit or len(some) < 2:
            return inner(admin, some, commit=commit, timeout_s=timeout_s)
        refused = inner(admin, some[:1], commit=commit, timeout_s=timeout_s)
        reach("between the ends")
        return refused | inner(admin, some[1:], commit=commit, timeout_s=timeout_s)

    module.end = end


PATCHES = {
    "pyclient.spark.sink.writer": _writer,
    "pyclient.spark.sink.commits": _commits,
    "pyclient.spark.sink.ledger": _ledger,
    "pyclient.spark.sink.transactions": _transactions,
}
