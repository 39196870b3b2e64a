"""`consume a -o jsonl | produce b -i jsonl`, for any number of partitions: copies all, or fails and copies nothing."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.cli.tests.running import Shell

_number = itertools.count(1)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run() as broker:
        yield Shell(broker.bootstrap_servers)


@pytest.fixture
def orders(shell: Shell) -> str:
    """A topic of five partitions with 200 records."""
    name = f"orders-{next(_number)}"
    shell.done("topic", "create", name, "-p", 5)
    shell.done("produce", name, "-K", ":", stdin="".join(f"{n}:v{n}\n" for n in range(200)))
    return name


def copied(shell: Shell, source: str, target: str, more: str = "") -> tuple[int, str]:
    """Runs the example of `produce --help` in a shell. Returns exit code and stderr of the second command."""
    command = f"{sys.executable} -P -m pybroker"
    line = f"{command} consume {source} --from-beginning --to end -o jsonl | {command} produce {target} -i jsonl {more}"
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": shell.bootstrap}
    ended = subprocess.run(line, shell=True, env=environment, stderr=subprocess.PIPE, text=True, timeout=100)
    return ended.returncode, ended.stderr


def content(shell: Shell, topic: str) -> list[str]:
    read = ("consume", topic, "--from-beginning", "--to", "end", "-f", r"%p %k %s\n")
    return sorted(shell.done(*read).out.splitlines())


@pytest.mark.nightly
def test_a_copy_is_created_with_as_many_partitions(shell: Shell, orders: str) -> None:
    code, told = copied(shell, orders, f"{orders}-copy")
    assert (code, "was created with 5 partitions" in told) == (0, True)
    assert content(shell, f"{orders}-copy") == content(shell, orders)


@pytest.mark.nightly
def test_a_copy_into_a_topic_with_fewer_partitions_says_how_many_and_writes_nothing(shell: Shell, orders: str) -> None:
    shell.done("topic", "create", f"{orders}-small", "-p", 2)
    code, told = copied(shell, orders, f"{orders}-small")
    assert code == 1
    assert "has 2 partitions, and the records need 5: nothing was written: `pybroker topic alter" in told
    assert content(shell, f"{orders}-small") == []
    assert copied(shell, orders, f"{orders}-small", "--spread") == (0, "")
    assert len(content(shell, f"{orders}-small")) == 200


def test_a_file_from_another_cluster_is_read_before_the_copy(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    rows = [f'{{"topic": "elsewhere", "partition": {n % 3}, "value": "v{n}"}}\n' for n in range(9)]
    file.write_text("".join(rows))
    shell.done("topic", "create", "narrow", "-p", 2)
    assert "need 3: nothing was written" in shell.refused("produce", "narrow", "-i", "jsonl", file)
    assert content(shell, "narrow") == []
    assert "created with 3" in shell.done("produce", "wide", "-i", "jsonl", file).err
    assert len(content(shell, "wide")) == 9


@pytest.mark.nightly
def test_a_pipe_from_another_cluster_is_refused_where_the_topic_is_missing(shell: Shell) -> None:
    line = '{"topic": "elsewhere", "partition": 0, "value": "x"}'
    command = f"echo '{line}' | {sys.executable} -P -m pybroker produce absent -i jsonl"
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": shell.bootstrap}
    ended = subprocess.run(command, shell=True, env=environment, stderr=subprocess.PIPE, text=True, timeout=100)
    assert (ended.returncode, "with as many as elsewhere had" in ended.stderr) == (1, True)
    assert "absent" not in shell.done("topic", "list", "-o", "name").out


@pytest.mark.nightly
def test_a_cluster_without_auto_creation_is_named_in_the_error() -> None:
    with pybroker.run(auto_create_topics_enable="false") as broker:
        given = '{"topic": "elsewhere", "partition": 3, "value": "x"}\n'
        told = Shell(broker.bootstrap_servers).refused("produce", "absent", "-i", "jsonl", stdin=given)
    assert "does not create topics on first use: `pybroker topic create absent -p 4` makes it" in told


def test_documents_without_partitions_need_nothing(shell: Shell) -> None:
    shell.done("produce", "plain", "-i", "jsonl", stdin='{"value": "a"}\n{"value": "b", "key": "k"}\n')
    assert len(content(shell, "plain")) == 2


def test_a_line_that_is_not_json_is_named_once(shell: Shell) -> None:
    told = shell.refused("produce", "plain", "-i", "jsonl", stdin='{"value": "a"}\n{"value": b}\n')
    assert told.endswith("line 2: it is not JSON: Expecting value at character 11; the lines before it were sent\n")
