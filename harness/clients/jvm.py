"""A JVM that runs Kafka's Java clients and tools on demand, the Python side of ``harness/java/Driver.java``.

A start costs a second of CPU, but later calls find a warm JVM. So tests share one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, NamedTuple

from harness import peers
from harness.witnesses import used

#: Exceeds the time that any client of the suite waits for its broker.
CALL_TIMEOUT_S = 180.0


class JvmError(RuntimeError):
    """A call raised in the JVM. ``errors``: the simple names of the exception's class and of its causes'."""

    def __init__(self, errors: list[str], message: str) -> None:
        super().__init__(message)
        self.errors = errors


class Answer(NamedTuple):
    """The result or the error of a call, and the events of a consumer's rebalance listener since the last one."""

    result: Any
    error: JvmError | None
    events: list[Any]


class Printed(NamedTuple):
    """The exit code and the output of a tool."""

    code: int
    output: str
    errors: str


class Jvm:
    """The process, which starts at once. It ends with ``close`` or with this process. ``options`` are more options of
    Java.
    """

    def __init__(self, heap: str = "512m", options: Sequence[str] = ()) -> None:
        command = peers.program("Driver", heap=heap, options=[*peers.SHORT_LIVED, *options])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._waiting: dict[int, Future[Answer]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="jvm", daemon=True)
        self._reader.start()

    def ask(self, call: str, on: str | None = None, **arguments: object) -> Answer:
        """Sends one call to the client ``on`` or to the JVM itself. Several threads may use it.

        Raises:
            JvmError: no answer in ``CALL_TIMEOUT_S``, or the JVM has ended.
        """
        number = next(self._ids)
        request: dict[str, object] = {"id": number, "call": call, "with": arguments}
        if on is not None:
            request["on"] = on
        answer: Future[Answer] = Future()
        self._waiting[number] = answer
        self._write(json.dumps(request) + "\n")
        try:
            return answer.result(CALL_TIMEOUT_S)
        except NotInTime:
            raise JvmError(["NoAnswer"], f"no answer to {call} in {CALL_TIMEOUT_S} s") from None

    def tool(self, main_class: str, *arguments: str, stdin: str = "") -> Printed:
        """Runs the main method of a Kafka tool. Tools run one after the other."""
        used("Java")
        words: dict[str, Any] = {"class": main_class, "arguments": arguments, "stdin": stdin}
        answer = self.ask("tool", **words)
        if answer.error is not None:
            raise answer.error
        return Printed(*answer.result)

    def close(self) -> None:
        """Ends the process without closing its clients."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            with self._lock:
                self.process.stdin.write(line)
                self.process.stdin.flush()
        except (OSError, ValueError):
            self._give_up()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)
            error = JvmError(found["errors"], found["message"]) if "errors" in found else None
            answer = Answer(found.get("result"), error, found.get("events", []))
            self._waiting.pop(found["id"]).set_result(answer)
        self._give_up()

    def _give_up(self) -> None:
        """Fails all pending calls, because no answer will come."""
        error = JvmError(["JvmEnded"], f"the JVM has ended with {self.process.poll()}")
        while self._waiting:
            with contextlib.suppress(KeyError):
                self._waiting.popitem()[1].set_result(Answer(None, error, []))
