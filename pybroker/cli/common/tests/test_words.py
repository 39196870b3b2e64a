"""Errors about unknown words, and the cost of a suggestion."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.cli import PLACES, cluster_last, is_for_start
from pybroker.cli.tests.running import Shell

shell = Shell("127.0.0.1:1")


def test_a_word_that_is_neither_a_command_nor_a_file_is_answered_with_the_nearest() -> None:
    line = shell.refused("strat", code=2)
    assert "'strat' is neither a command nor a file" in line
    assert "did you mean 'start'?" in line


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("stop", "Ctrl-C, or SIGTERM"),
        ("status", "`pybroker cluster health`"),
        ("help", "`pybroker --help`"),
        ("version", "`pybroker --version`"),
        ("kafka-transactions.sh", "`pybroker txn`"),
        ("kafka-storage", "nothing to format"),
    ],
)
def test_an_expected_but_missing_verb_is_answered_with_what_to_do(word: str, advice: str) -> None:
    line = shell.refused(word, code=2)
    assert advice in line
    assert "did you mean" not in line


def test_a_word_unlike_any_verb_is_not_taken_for_one() -> None:
    assert "did you mean" not in shell.refused("stopp", code=2)


def test_an_unknown_word_is_answered_with_all_verbs() -> None:
    assert "there are start, " in shell.refused("qqq", code=2)


def test_files_and_options_are_for_start(tmp_path: Path) -> None:
    (tmp_path / "conf").touch()
    assert is_for_start(str(tmp_path / "conf"))
    assert is_for_start("missing.properties")
    assert is_for_start("--port")
    assert not is_for_start("broker")


@pytest.mark.parametrize(
    ("words", "same_as"),
    [
        ("-b h:1 topic list", "topic list -b h:1"),
        ("-bh:1 topic list", "topic list -bh:1"),
        ("--bootstrap-server=h:1 -X a=b produce t -- -f", "produce t --bootstrap-server=h:1 -X a=b -- -f"),
        ("-P prod", "-P prod"),
        ("-b h:1 --port 3", "-b h:1 --port 3"),
        ("topic list -b h:1", "topic list -b h:1"),
        ("--port 3", "--port 3"),
    ],
)
def test_options_that_name_the_cluster_may_come_first(words: str, same_as: str) -> None:
    assert cluster_last(words.split()) == same_as.split()


def test_an_unknown_verb_of_a_noun_is_answered_with_the_nearest() -> None:
    assert "topic lst: no such verb: did you mean 'list'?" in shell.refused("topic", "lst", code=2)


@pytest.mark.parametrize("name", PLACES)
def test_every_verb_explains_itself(name: str) -> None:
    assert "Usage: pybroker " + name in shell.done(name, "--help").out


@pytest.mark.nightly
def test_help_imports_no_client_and_no_broker() -> None:
    code = (
        "import sys; from pybroker import cli; cli.main(['--help']);"
        "print([n for n in ('asyncio', 'pyclient', 'pybroker.process.supervisor', 'rich') if n in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "create", "t", "-c", "x"),
        ("topic", "trim", "t", "--before", "yesterday"),
        ("topic", "alter", "t"),
        ("group", "reset", "g", "--all-topics"),
        ("group", "reset", "g", "--to-earliest"),
        ("consume", "t", "-f", "%x"),
        ("consume", "t", "--group", "g", "--from", "5"),
        ("produce", "t", "-k", "a", "-K", ":"),
        ("config", "set", "topic", "t", "x"),
        ("cluster", "describe", "-X", "lingr.ms=5"),
        ("cluster", "describe", "-o", "xml"),
    ],
)
def test_wrong_usage_exits_2_before_any_request(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.cli.common.cluster_options.CONNECT_S", 0.1)
    shell.refused(*words, code=2)


def test_an_unreachable_cluster_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.cli.common.cluster_options.CONNECT_S", 0.1)
    line = shell.refused("topic", "list")
    assert "127.0.0.1:1" in line
    assert "`pybroker start` starts one" in line
