"""How the command ends, as a process of its own: bytes that are not text, full disks, closed pipes, signals."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.__main__ import arguments_of, starts_broker
from pybroker.tests.waiting import until

pytestmark = pytest.mark.nightly

COMMAND = (sys.executable, "-P", "-m", "pybroker")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full on this system")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with pybroker.run(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


def begin(bootstrap: str, *words: str | bytes, **streams: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": bootstrap}
    opened = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([*COMMAND, *words], env=environment, **opened)  # type: ignore[call-overload,no-any-return]


def run(bootstrap: str, *words: str | bytes, **streams: object) -> tuple[int, bytes, bytes]:
    process = begin(bootstrap, *words, **streams)
    out, told = process.communicate(timeout=60)
    return process.returncode, out, told


def test_bytes_that_are_not_text_are_sent_unchanged(bootstrap: str) -> None:
    words = ("produce", "raw", "-k", b"k\xff", "--value", b"\xfe\x00"[:1], "-H", b"h=\xfd")
    assert run(bootstrap, *words) == (0, b"", b"")
    assert run(bootstrap, "produce", "raw", "-K", b"\xfc", stdin=written(b"a\xfcb\n"))[0] == 0
    read = ("consume", "raw", "--from-beginning", "--to", "end", "-f", r"%k %s %h\n")
    assert run(bootstrap, *read)[1] == b"k\xff \xfe h=\xfd\na b \n"
    assert run(bootstrap, *read, "-k", b"k\xff")[1] == b"k\xff \xfe h=\xfd\n"


def written(data: bytes) -> int:
    """Returns the reading end of a pipe that holds these bytes."""
    source, sink = os.pipe()
    os.write(sink, data)
    os.close(sink)
    return source


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("topic", "describe", b"\xff"), rb"'[TOPIC]"),
        (("produce", "raw", "--value", "x", "-H", b"\xff=x"), rb"--header '\udcff': the name of a header must be"),
        (("consume", "raw", "--grep", b"\xff"), rb"'--grep': '\udcff' is not UTF-8"),
        ((b"\xff",), rb"'\udcff' is neither a command nor a file"),
        (("topic", "list", "-b", b"\xff"), rb"'\udcff' is not UTF-8"),
    ],
)
def test_names_that_are_not_text_are_refused_in_a_line(bootstrap: str, words: tuple[str, ...], told: bytes) -> None:
    code, out, line = run(bootstrap, *words)
    assert (code, out, line.count(b"\n")) == (2, b"", 1)
    assert told in line


def test_a_too_deeply_nested_document_is_reported_by_its_line(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "deep").write_bytes(b'{"value": 1}\n' + b"[" * 900_000 + b"\n")  # so deep for Python 3.14
    with (tmp_path / "deep").open("rb") as source:
        code, _, line = run(bootstrap, "produce", "deep", "-i", "jsonl", stdin=source)
    assert (code, line) == (1, b"pybroker: line 2: it is nested too deeply; the lines before it were sent\n")


@needs_full
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("topic", "list"),
        ("topic", "list", "-o", "json"),
        ("cluster", "describe", "-o", "csv"),
        ("consume", "filled", "--from-beginning", "--to", "end"),
        ("kafka-console-consumer", "--topic", "filled", "--from-beginning", "--max-messages", "1"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_a_full_disk_behind_stdout_is_reported_in_a_line(bootstrap: str, words: tuple[str, ...]) -> None:
    assert run(bootstrap, "produce", "filled", "--value", "x")[0] == 0
    with FULL.open("wb") as full:
        code, _, told = run(bootstrap, *words, stdout=full)
    line = told.removeprefix(b"Processed a total of 0 messages\n")  # Kafka's script says this after any end
    reason = b"No space left on device: the output is incomplete: make room, or write elsewhere"
    assert (code, line) == (1, b"pybroker: stdout: " + reason + b"\n")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc on this system")
def test_an_unreadable_input_is_not_reported_as_an_error_of_the_output(bootstrap: str) -> None:
    with Path("/proc/self/mem").open("rb") as broken:
        code, _, line = run(bootstrap, "produce", "unread", stdin=broken)
    reason = b"Input/output error: read from and write to something else"
    assert (code, line) == (1, b"pybroker: stdin or stdout: " + reason + b"\n")


@needs_full
def test_a_full_disk_behind_stderr_changes_no_exit_code(bootstrap: str) -> None:
    with FULL.open("wb") as full:
        assert run(bootstrap, "topic", "describe", "nope", stderr=full)[0] == 1
        assert run(bootstrap, "nope", stderr=full)[0] == 2


FAMILIES = {
    "--help": 0,
    "--version": 0,
    "topic list": 0,
    "produce filled --value x": 0,
    "consume filled --from-beginning -n 1": 0,
    "cluster describe -o json": 0,
    "cluster health": 0,
    "partition reassignments": 0,
    "group list": 0,
    "config get topic filled": 0,
    "txn list": 0,
    "api-versions": 0,
    "doctor --local": 0,
    "log dirs": 0,
    "completion bash": 0,
    "bench produce -n 10": 0,
    "kafka-topics --list": 0,
    "kafka-console-producer --topic filled": 0,
    "kafka-console-consumer --topic filled --from-beginning --max-messages 1": 0,
    "topic describe nope": 1,
    "topic nope": 2,
    "nope": 2,
}
"""A line of each family of verbs, and its exit code."""


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", ">&-"])
def test_closed_streams_become_dev_null(bootstrap: str, tmp_path: Path, closed: str) -> None:
    assert run(bootstrap, "produce", "filled", "--value", "x")[0] == 0
    codes = tmp_path / "codes"
    script = "".join(f"{' '.join(COMMAND)} {line} {closed}; echo $? >>{codes}\n" for line in FAMILIES)
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": bootstrap}
    done = subprocess.run(["sh", "-c", script], env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    assert dict(zip(FAMILIES, map(int, codes.read_text().split()), strict=True)) == FAMILIES
    assert b"Traceback" not in done.stderr


def test_a_broker_starts_and_stops_without_streams(tmp_path: Path) -> None:
    line = f"exec {' '.join(COMMAND)} --port 0 --data-dir {tmp_path} <&- >&- 2>&-"
    process = subprocess.Popen(["sh", "-c", line])
    try:
        until(lambda: list(tmp_path.glob("broker-*/*")) or process.poll() is not None)
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("consume", "piped", "--from-beginning", "--to", "end"),
        ("consume", "piped", "--from-beginning", "--to", "end", "-o", "json"),
        ("topic", "list"),
        ("api-versions", "-o", "json"),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_ends_the_verb_silently(bootstrap: str, words: tuple[str, ...]) -> None:
    assert run(bootstrap, "produce", "piped", stdin=written(b"x\n" * 20_000))[0] == 0
    source, sink = os.pipe()
    os.close(source)
    code, _, told = run(bootstrap, *words, stdout=sink)
    os.close(sink)
    assert (code, told) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [("produce",), ("kafka-console-producer", "--topic")], ids=" ".join)
def test_a_signal_ends_a_producer_with_its_own_exit_code_and_nothing_lost(
    bootstrap: str, words: tuple[str, ...], number: int
) -> None:
    topic = f"stopped-{words[0]}-{number}"
    source, sink = os.pipe()
    process = begin(bootstrap, *words, topic, stdin=source)
    os.write(sink, b"first\n")
    read = ("consume", topic, "--from-beginning", "--to", "end")
    until(lambda: run(bootstrap, *read)[1] == b"first\n")
    process.send_signal(number)
    out, told = process.communicate(timeout=60)
    os.close(sink)
    assert (process.returncode, out, told.strip()) == (128 + number, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_benchmark_with_its_own_exit_code_and_leaves_no_topic(bootstrap: str, number: int) -> None:
    names = ("topic", "list", "-o", "name")
    process = begin(bootstrap, "bench", "produce", "--rate", "50", "-n", "1000000")
    until(lambda: b"bench-" in run(bootstrap, *names)[1])
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told.strip()) == (128 + number, b"")
    assert b"bench-" not in run(bootstrap, *names)[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_for_a_cluster_exits_with_128_plus_its_number(number: int) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = begin(f"127.0.0.1:{silent.getsockname()[1]}", "topic", "list")
        assert select.select([silent], [], [], 60)[0]
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told.strip()) == (128 + number, b"")


@pytest.mark.parametrize(
    ("argv", "arguments", "starts"),
    [
        (["/bin/pybroker"], [], True),
        (["/bin/pybroker", "--port", "0"], ["--port", "0"], True),
        (["/bin/pybroker", "start"], ["start"], True),
        (["/bin/pybroker", "server.properties"], ["server.properties"], True),
        (["/bin/pybroker", "topic", "list"], ["topic", "list"], False),
        (["/bin/pybroker", "api-versions"], ["api-versions"], False),
        (["/bin/kafka-topics", "--list"], ["kafka-topics", "--list"], False),
        (["/bin/kafka-topics.sh", "--list"], ["kafka-topics.sh", "--list"], False),
        (["/bin/kafka-server-start.sh", "x"], ["kafka-server-start.sh", "x"], True),
    ],
)
def test_the_program_may_be_called_by_the_name_of_a_kafka_script(
    argv: list[str], arguments: list[str], starts: bool
) -> None:
    assert (arguments_of(argv), starts_broker(arguments)) == (arguments, starts)
