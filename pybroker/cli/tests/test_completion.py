"""The words that a shell completes on Tab."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.cli import PLACES, SCRIPTS
from pybroker.cli.tests.running import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run() as broker:
        found = Shell(broker.bootstrap_servers)
        found.done("topic", "create", "alpha", "alps", "beta")
        found.done("produce", "alpha", "--value", "x")
        found.done("kafka-consumer-groups", "--group", "readers", "--topic", "alpha", "--reset-offsets",
                   "--to-earliest", "--execute")
        yield found


def offered(shell: Shell, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Returns the words that bash offers for the last word."""
    monkeypatch.setenv("_PYBROKER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("pybroker", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    return [line.removeprefix("plain,") for line in shell.done().out.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("topic", "describe", "al"), ["alpha", "alps"]),
        (("topic", "describe", "alpha", "al"), ["alps"]),
        (("consume", "b"), ["beta"]),
        (("kafka-topics.sh", "--topic", ""), ["alpha", "alps", "beta"]),
        (("group", "describe", ""), ["readers"]),
        (("consume", "alpha", "-g", "r"), ["readers"]),
        (("config", "get", "topic", "be"), ["beta"]),
        (("config", "get", "broker", ""), ["1"]),
        (("topic", "describe", "-b", "127.0.0.1:1", ""), []),
        (("topic", "de"), ["delete", "describe"]),
        (("topic", "describe", "-o", "j"), ["json", "jsonl"]),
        (("kafka-consumer-g",), ["kafka-consumer-groups"]),
    ],
)
def test_matching_names_are_offered(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], found: list[str]
) -> None:
    assert offered(shell, monkeypatch, *words) == found


def test_the_settings_of_the_line_find_the_cluster(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={shell.bootstrap}\n")
    monkeypatch.setenv("PYBROKER_BOOTSTRAP", "127.0.0.1:1")
    elsewhere = Shell("127.0.0.1:1")
    assert offered(elsewhere, monkeypatch, "topic", "describe", "--command-config", str(file), "be") == ["beta"]
    file.write_text(f"bootstrap.servers={shell.bootstrap}\nlingr.ms=5\n")
    assert offered(elsewhere, monkeypatch, "topic", "describe", "--command-config", str(file), "be") == []


def test_all_verbs_are_offered(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(shell, monkeypatch, "") == [*PLACES, *SCRIPTS]


@pytest.mark.parametrize("name", [pytest.param("bash", marks=pytest.mark.nightly), "zsh", "fish"])
def test_the_script_of_a_shell_calls_the_command(shell: Shell, name: str) -> None:
    script = shell.done("completion", name).out
    assert f"_PYBROKER_COMPLETE={name}_complete" in script
    if name == "bash":
        bash = shutil.which("bash")
        assert bash is not None
        line = f"{script}\ncomplete -p pybroker"
        done = subprocess.run([bash, "-c", line], capture_output=True, text=True, timeout=60, check=True)
        assert "-F _pybroker_completion pybroker" in done.stdout
