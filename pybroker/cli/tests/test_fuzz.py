"""Whatever a user types, a verb ends with an exit code and a clear line, never with an unexpected exception."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import pybroker
from pybroker.cli import pybroker as root
from pybroker.cli.common.ending import defect
from pybroker.cli.common.places import SpotType
from pybroker.cli.common.verbs import COMMON_OPTIONS
from pybroker.cli.tests.running import Ended, Shell

pytestmark = pytest.mark.nightly

NOT_CLIENTS = {"start", "demo", "kafka-server-start"}
AWAY = {("cluster", "restart"), ("log", "strays", "adopt"), ("log", "strays", "remove")}
"""Verbs that act on the folders of running brokers, which a test must not touch."""
OLD = {"zookeeper"}
"""Options that are refused before the verb checks anything else."""
SLOW = {"rate", "throughput", "timeout", "timeout_ms", "count", "num_records", "size", "record_size", "watch", "write"}
"""Options whose purpose is that a verb takes long."""
BOUNDS = {
    ("consume",): ("--timeout", "0"),
    ("kafka-console-consumer",): ("--timeout-ms", "1"),
    ("bench", "produce"): ("-n", "1"),
    ("bench", "consume"): ("-n", "1"),
    ("bench", "e2e"): ("-n", "1"),
    ("kafka-producer-perf-test",): ("--num-records", "1"),
    ("kafka-consumer-perf-test",): ("--num-records", "1", "--timeout", "1"),
    ("doctor",): ("--local", "--timeout", "0.1"),
}
WORDS = (
    *("", " ", "-", "--", "\udcff", "\udc80=\udcfe", "é", "²", "*", "(", "{", "%", ".", "/", "\n"),
    *("0", "1", "-1", "2147483648", "-9223372036854775809", "99999999999999999999", "1" * 5000, "0x10", "1_0"),
    *("nan", "inf", "-inf", "1e400", "true", "=", "a=", "=b", "a=b", "a=\udcff", "a.ms=1", "retention.ms=x"),
    *("@", "@-1", "@99999999999999999999", "0001-01-01", "9999-12-31T23:59:59+00:00", "2026-13-01", "12:00"),
    *("t", "t:0", "t:²", "t:9999999999", "t:0:1", "t,t", "g", ":0", "flights:0,1,", "x" * 300, "x" * 70_000),
    *("[" * 3000, "(" * 3000, "{" * 3000, "a|" * 3000, "/dev/null", "nothing.there", "localhost:1", "PT1H", "P1Y"),
)
NUMBERS = ("0", "1", "2", "-1", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "1" * 30)
PLACES = ("earliest", "latest", "0", "1", "-1", "@0", "@1700000000000", "2026-11-22T01:00", "9223372036854775807")
NAMES = ("t", "t", "g", "1", "t:0", "a=b", "retention.ms=1000", "x", "99999999999", "\udcff=\udcff", "t:0:1", "0,1")
INPUTS = (
    *(b"", b"\n", b"\xff\xfe\n", b"a\tb\n", b"\x00\n", b"x" * 100_000, b"[" * 100_000, b"{" * 100_000, b"null"),
    *(b'{"value": ' * 50_000, b'{"value": 1, "partition": 99999999999}', b'{"value": "\\ud800"}', b'{"value": 1e999}'),
    *(b'{"value": 1, "headers": 7}', b'{"value": 1, "timestamp": 99999999999999999999}', b'{"value": {"base64": 1}}'),
)
CASES = int(os.environ.get("PYBROKER_FUZZ_CASES", "6"))
"""How many command lines are tried for each verb."""
TIME_S = 120


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields every verb, by its words."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and (*path, name) not in AWAY and name not in NOT_CLIENTS:
            yield from leaves(found, (*path, name))


def command_of(path: tuple[str, ...]) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def value(chance: random.Random, parameter: click.Parameter) -> str:
    """Returns a value that is mostly valid, because a verb stops at its first invalid word."""
    if chance.random() < 0.3:
        return chance.choice(WORDS)
    if isinstance(parameter.type, click.Choice):
        return str(chance.choice(list(parameter.type.choices)))
    if isinstance(parameter.type, (click.IntRange, click.FloatRange)) or parameter.type in (click.INT, click.FLOAT):
        return chance.choice(NUMBERS)
    if isinstance(parameter.type, SpotType):
        return chance.choice(PLACES)
    return chance.choice(NAMES)


def line(path: tuple[str, ...], chance: random.Random) -> list[str]:
    """Returns a command line of this verb: its required and some optional words, valid or not."""
    words: list[str] = []
    arguments: list[str] = []
    for parameter in command_of(path).params:
        if not (parameter.required or chance.random() < 0.3) or parameter.name in COMMON_OPTIONS | SLOW | OLD:
            continue
        if isinstance(parameter, click.Argument):
            arguments += [value(chance, parameter) for _ in range(chance.choice((1, 1, 2)))]
        elif isinstance(parameter, click.Option):
            name = chance.choice(parameter.opts)
            words += [name] if parameter.is_flag or parameter.flag_value is True else [name, value(chance, parameter)]
    return [*path, *words, *BOUNDS.get(path, ()), "--", *arguments]


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run(group_initial_rebalance_delay_ms=0, num_partitions=2) as broker:
        made = Shell(broker.bootstrap_servers)
        made.done("topic", "create", "t", "-p", 2)
        made.done("produce", "t", stdin="a\nb\n")
        made.done("group", "reset", "g", "--topic", "t", "--to-earliest", "--execute")
        yield made


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives each test its own folder, clients that give up soon, and an end to verbs that would not end."""
    monkeypatch.chdir(tmp_path)
    for name, seconds in (("CONNECT_S", 0.3), ("QUICKLY_S", 0.1)):
        monkeypatch.setattr(f"pybroker.cli.common.cluster_options.{name}", seconds)
    monkeypatch.setenv("PYBROKER_PROFILES", str(tmp_path / "profiles.toml"))

    def late(number: int, frame: object) -> None:
        raise AssertionError(f"no end within {TIME_S} s")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def was_foreseen(ended: Ended) -> bool:
    told = ended.out + ended.err
    return ended.code in (0, 1, 2) and "not foreseen" not in told and "Traceback" not in told


@pytest.mark.parametrize("path", list(leaves(root)), ids=" ".join)
def test_no_input_makes_a_verb_fail_unexpectedly(path: tuple[str, ...], shell: Shell) -> None:
    chance = random.Random(" ".join(path))
    for _ in range(CASES):
        words, given = line(path, chance), chance.choice(INPUTS)
        signal.alarm(TIME_S)
        ended = shell(*words, stdin=given)
        assert was_foreseen(ended), (words, given[:50], ended.code, ended.err[-2000:])


FILES = (
    *(b"", b"\xff\xfe", b"[prod]\na=\xff", b"\\u12\n", b"x" * 200_000, b"[" * 200_000, b"a=" + b"[" * 50_000, b"1,2,3"),
    *(b"t,0,99999999999999999999\n", b"t,99999999999,0\n", b'{"topics": 7}', b'{"topics": [{"topic": 7}]}'),
    b'{"partitions": [{"topic": "t", "partition": 0}]}',
    b'{"partitions": [{"topic": "t", "partition": 99999999999, "offset": 1, "replicas": [1]}]}',
    b'{"partitions": [{"topic": "t", "partition": 0, "offset": 99999999999999999999, "replicas": [99999999999]}]}',
    b'{"partitions": [{"topic": 7, "partition": "x", "offset": "y", "replicas": "z"}]}',
    b'{"partitions": [{"topic": "\\ud800", "partition": 0, "offset": 0, "replicas": [1]}]}',
)
TAKERS = (
    *("kafka-topics --list --command-config", "kafka-console-producer --topic t --reader-config"),
    *("kafka-console-consumer --topic t --timeout-ms 1 --formatter-config", "kafka-delete-records --offset-json-file"),
    *("kafka-reassign-partitions --execute --reassignment-json-file",),
    *("kafka-reassign-partitions --verify --reassignment-json-file",),
    *("kafka-reassign-partitions --generate --broker-list 1 --topics-to-move-json-file",),
    *("kafka-leader-election --election-type preferred --path-to-json-file",),
    *("kafka-configs --alter --topic t --add-config-file", "kafka-dump-log --files", "log dump", "doctor --local"),
    *("kafka-consumer-groups --reset-offsets --group g --execute --from-file", "produce t -i jsonl", "produce t"),
    *("kafka-producer-perf-test --topic t --num-records 1 --payload-file", "log strays list --data-dir"),
)


@pytest.mark.parametrize("taker", TAKERS)
def test_no_file_makes_a_verb_fail_unexpectedly(taker: str, shell: Shell, tmp_path: Path) -> None:
    for number, content in enumerate(FILES):
        file = tmp_path / f"{number}.log"
        file.write_bytes(content)
        signal.alarm(TIME_S)
        ended = shell(*taker.split(), file)
        assert was_foreseen(ended), (taker, content[:80], ended.err[-2000:])
        assert "give something flatter" not in ended.err, "which file is it?"


def test_no_profiles_file_fails_unexpectedly(shell: Shell, tmp_path: Path) -> None:
    for content in FILES:
        (tmp_path / "profiles.toml").write_bytes(content)
        signal.alarm(TIME_S)
        ended = shell("topic", "list", "-P", "prod")
        assert (was_foreseen(ended), "profiles.toml" in ended.err) == (True, True), ended.err


@pytest.mark.parametrize("option", ["-b", "-P", "-X"])
def test_no_option_value_fails_unexpectedly(option: str, shell: Shell) -> None:
    for word in WORDS:
        signal.alarm(TIME_S)
        ended = shell("topic", "list", option, word)
        assert was_foreseen(ended), (option, word[:50], ended.err[-2000:])


def test_an_unexpected_error_is_one_line_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("x")

    monkeypatch.setattr("pybroker.cli.topic.failures", fail)
    assert "not foreseen: ZeroDivisionError at test_fuzz.py:" in shell.refused("topic", "describe", "t")
    assert defect(ValueError("y")) == "not foreseen: ValueError: y: please report it, with what -v shows"
