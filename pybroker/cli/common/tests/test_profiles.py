"""Clusters by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import pybroker
from pybroker.cli.common.profiles import load
from pybroker.cli.tests.running import Shell


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "profiles.toml"
    monkeypatch.setenv("PYBROKER_PROFILES", str(path))
    return path


@pytest.mark.nightly
def test_a_profile_sets_address_and_settings_and_the_command_line_wins(file: Path) -> None:
    with pybroker.run() as broker:
        file.write_text(
            f'[here]\nbootstrap.servers = "{broker.bootstrap_servers}"\n[bad]\nlingr.ms = 5\n'
            '[away]\n"bootstrap.servers" = "127.0.0.1:1"\n'
        )
        away = Shell("127.0.0.1:1")
        assert away.done("cluster", "describe", "-P", "here").out
        assert away.done("kafka-topics", "--list", "-P", "here").out == ""
        assert away.done("cluster", "describe", "-P", "away", "-b", broker.bootstrap_servers).out
        assert "lingr.ms" in Shell(broker.bootstrap_servers).refused("cluster", "describe", "-P", "bad", code=2)


def test_profiles_may_begin_with_a_byte_order_mark(file: Path) -> None:
    file.write_text('[prod]\n"client.id" = "x"\n', encoding="utf-8-sig")
    assert load() == {"prod": {"client.id": "x"}}


def test_profiles_are_listed(file: Path) -> None:
    shell = Shell()
    assert shell.done("profiles").out == ""
    file.write_text('[prod]\nbootstrap.servers = "a:1"\nclient.id = "x"\n')
    assert shell.done("profiles", "-o", "csv").out == "name,bootstrap,settings\nprod,a:1,1\n"
    (found,) = shell.done("profiles", "-o", "jsonl").documents
    assert found == {"name": "prod", "settings": {"bootstrap.servers": "a:1", "client.id": "x"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[prod]\n", "did you mean 'prod'?"),
        ("", "there is none in"),
        ("[", "profiles.toml"),
        ("a = 1\n", "outside of a"),
    ],
)
def test_a_wrong_profile_or_file_is_a_usage_error(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    assert words in Shell().refused("topic", "list", "-P", "pro", code=2)
