"""Signals end a verb that reads, with their exit code. No record is committed that was not written."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import pybroker
from pyclient import Admin, Producer, TopicPartition
from pyclient.tests.support import PATIENCE_S

pytestmark = pytest.mark.nightly

REPOSITORY = Path(__file__).parents[3]
PLACE = TopicPartition("lines", 0)
LINES = 5_000
LINE = bytes(range(65, 91)) * 20
ENDS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with pybroker.run() as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_many(PLACE.topic, [LINE] * LINES)
        yield broker.bootstrap_servers


def started(*words: str, **variables: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **variables}
    return subprocess.Popen(
        [sys.executable, "-m", "pybroker", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        bufsize=0,
    )


def take(process: subprocess.Popen[bytes], count: int) -> bytes:
    """Reads at least that many bytes of the command's output."""
    assert process.stdout is not None
    found = b""
    while len(found) < count:
        assert select.select([process.stdout], [], [], PATIENCE_S)[0], "nothing comes"
        some = process.stdout.read(65536)
        assert some, process.stderr.read() if process.stderr else None
        found += some
    return found


@ENDS
def test_a_group_commits_no_line_that_was_not_written(bootstrap: str, number: signal.Signals) -> None:
    """The reader has stopped to read, so the pipe is full when the signal comes."""
    group = f"readers-{number.name}"
    words = ("-b", bootstrap, "-g", group, "--from", "earliest")
    process = started("consume", *words, PLACE.topic)
    try:
        found = take(process, 600_000)
        select.select([], [], [], 1.0)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 128 + number
        assert process.stdout is not None
        found += process.stdout.read()
    finally:
        process.kill()
        process.communicate()
    with Admin(bootstrap) as admin:
        row = admin.list_consumer_group_offsets(group).get(PLACE)
        assert not admin.describe_consumer_groups(group)[group].members
    assert row is not None
    assert 0 < row.offset <= found.count(b"\n") < LINES


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_verb_that_is_stopped_while_it_writes_and_continued_loses_nothing(bootstrap: str, unbuffered: str) -> None:
    """The defect: with PYTHONUNBUFFERED, a write that a signal interrupted silently dropped the remaining bytes."""
    words = ("consume", "-b", bootstrap, PLACE.topic, "--from", "earliest", "-n", str(LINES))
    process = started(*words, PYTHONUNBUFFERED=unbuffered)
    try:
        assert process.stdout is not None
        found = take(process, 1)
        for _ in range(20):
            while not is_full(process.stdout):
                time.sleep(0.001)
            process.send_signal(signal.SIGSTOP)
            process.send_signal(signal.SIGCONT)
            found += process.stdout.read(65536)
        found += take(process, LINES * (len(LINE) + 1) - len(found))
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()
    assert found == (LINE + b"\n") * LINES


def is_full(pipe: IO[bytes]) -> bool:
    """Returns whether the pipe is full, so that the writer has to wait."""
    waiting = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] >= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 4096


@ENDS
@pytest.mark.parametrize("verb", ["consume", "kafka-console-consumer"])
def test_the_exit_code_is_the_signals(bootstrap: str, number: signal.Signals, verb: str) -> None:
    words = {
        "consume": ("consume", "-b", bootstrap, PLACE.topic, "--from", "earliest"),
        "kafka-console-consumer": (
            *("kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", PLACE.topic, "--from-beginning"),
        ),
    }[verb]
    process = started(*words)
    try:
        take(process, LINES * (len(LINE) + 1))
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number
    assert b"Traceback" not in told
    if verb == "kafka-console-consumer":
        assert b"Processed a total of %d messages" % LINES in told
