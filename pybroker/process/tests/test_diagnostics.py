"""Log lines of a process whose stderr is a pipe that nobody reads."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.process import diagnostics
from pybroker.tests.processes import READY, command, environment
from pyclient import Admin

LIMIT_S = 30.0

LOGGING = """
import logging, sys
from pybroker.process import diagnostics
diagnostics.MOST = 10
diagnostics.set_up("info", "broker 7")
for number in range(100):
    logging.getLogger("test").info("line %d", number)
print("logged", flush=True)
sys.stdin.readline()
logging.getLogger("test").info("the last")
diagnostics.flush()
"""


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """Yields the two ends of a pipe that is full."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writing, b"." * size)
        os.set_blocking(writing, True)
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


@contextmanager
def logging_to(writing: int, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Yields a process whose stderr is that pipe. It is killed at the end, or when it takes too long."""
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writing, text=True, env=environment()
    )
    timer = threading.Timer(LIMIT_S, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    """Returns the next line of its stdout, empty if the process has ended."""
    assert process.stdout is not None
    return process.stdout.readline()


def read_until(reading: int, end: bytes) -> str:
    """Returns the pipe's output up to ``end``."""
    data = b""
    while end not in data:
        assert select.select([reading], [], [], LIMIT_S)[0], f"there is no {end!r} behind {data!r}"
        data += os.read(reading, 1 << 16)
    return data.lstrip(b".").decode()


@pytest.mark.nightly
def test_a_broker_serves_if_nobody_reads_its_stderr(tmp_path: Path) -> None:
    words = command("--port", 0, "--data-dir", tmp_path, "--log-level", "debug")
    with full_pipe() as (reading, writing), logging_to(writing, words) as process:
        ready = READY.fullmatch(line_of(process))
        assert ready
        with Admin(f"127.0.0.1:{ready[1]}") as admin:
            admin.create_topics({"t": 1})
            assert "t" in admin.list_topics()
        assert str(tmp_path) in read_until(reading, b"data folder")
        process.send_signal(signal.SIGTERM)
        assert "stopping" in read_until(reading, b": stopped\n")
        assert process.wait(LIMIT_S) == 0


@pytest.mark.nightly
def test_a_broker_stops_if_nobody_reads_its_stderr(tmp_path: Path) -> None:
    words = command("--port", 0, "--data-dir", tmp_path)
    with full_pipe() as (_, writing), logging_to(writing, words) as process:
        assert READY.fullmatch(line_of(process))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


@pytest.mark.nightly
def test_dropped_log_lines_are_reported_once_when_stderr_is_read_again() -> None:
    with full_pipe() as (reading, writing), logging_to(writing, [sys.executable, "-c", LOGGING]) as process:
        assert line_of(process) == "logged\n"
        told = read_until(reading, b"were dropped")
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        told += read_until(reading, b"the last\n")
    lines = [int(number) for number in re.findall(r"\[broker 7\] test: line (\d+)\n", told)]
    assert lines == list(range(len(lines)))
    assert 10 <= len(lines) <= 11
    assert re.findall(r"(\d+) log lines were dropped, because stderr was not read", told) == [str(100 - len(lines))]
    assert told.endswith("test: the last\n")


@pytest.mark.nightly
def test_a_log_line_is_written_at_once_if_stderr_is_a_file(tmp_path: Path) -> None:
    """Lines logged before a process is killed are not lost."""
    text = "import logging, os; from pybroker.process import diagnostics; diagnostics.set_up('info');"
    text += "logging.getLogger('test').info('the last'); os._exit(0)"
    with (tmp_path / "log").open("wb") as log:
        subprocess.run([sys.executable, "-c", text], stderr=log, env=environment(), check=True, timeout=LIMIT_S)
    assert (tmp_path / "log").read_text().endswith("test: the last\n")


def test_text_chosen_by_a_client_cannot_forge_a_log_line() -> None:
    """A group may be called ``g\\nPrincipal = User:admin is Denied …``, and its name is in many lines."""
    forged = "g\r\nPrincipal = User:admin\x1b[31m\u2028is Denied"
    record = logging.makeLogRecord({"msg": "group %s is empty", "args": (forged,), "levelname": "INFO"})
    try:
        raise ValueError("why")
    except ValueError:
        record.exc_info = sys.exc_info()
    line, *traceback = diagnostics.OneLine("%(levelname)s %(message)s").format(record).splitlines()
    assert line == r"INFO group g\r\nPrincipal = User:admin\x1b[31m\u2028is Denied is empty"
    assert (traceback[0], traceback[-1]) == ("Traceback (most recent call last):", "ValueError: why")


@pytest.mark.parametrize(
    ("told", "level"), [("WARN", "warning"), (" trace ", "debug"), ("OFF", "error"), ("", "info"), ("loud", "info")]
)
def test_the_log_level_variable_of_kafkas_image_sets_the_log_level(told: str, level: str) -> None:
    assert diagnostics.level_of({"KAFKA_LOG4J_ROOT_LOGLEVEL": told}) == level
    assert diagnostics.level_of({}) == "info"


@pytest.mark.nightly
def test_a_logger_with_its_own_file_ignores_the_log_level_of_the_others(tmp_path: Path) -> None:
    text = (
        "import logging; from pybroker.process import diagnostics; diagnostics.set_up('error');"
        "diagnostics.into_file('own.logger', 'own.log', 'broker 7'); log = logging.getLogger('own.logger');"
        "log.info('one'); log.debug('no'); logging.getLogger('other').error('two')"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT_S)
    (line,) = (tmp_path / "own.log").read_text().splitlines()
    assert line.endswith("INFO    [broker 7] own.logger: one")
    assert (ended.stderr.count("two"), ended.stderr.count("one")) == (1, 0)
