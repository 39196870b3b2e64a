"""Kafka's scripts as programs of their own: each verb that is one has its two names in setup.cfg, and they work."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

import pybroker
from pybroker.cli import SCRIPTS

ROOT = Path(__file__).parents[4]
PROGRAM = """#!{python}
import sys
from pybroker.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""
"""The program that pip creates for an entry point."""


def entries() -> dict[str, str]:
    found = configparser.ConfigParser(delimiters=("=",))
    found.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = found["options.entry_points"]["console_scripts"].strip().splitlines()
    return {name.strip(): place.strip() for name, _, place in (line.partition("=") for line in lines)}


def test_every_script_of_kafkas_is_a_program_by_both_of_its_names() -> None:
    names = {"pybroker", *SCRIPTS, *(f"{name}.sh" for name in SCRIPTS)}
    assert entries() == dict.fromkeys(names, "pybroker.__main__:main")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["kafka-topics", "kafka-topics.sh"])
def test_a_program_is_the_verb_of_its_name_and_imports_nothing_else(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    with pybroker.run() as broker:
        where = ("--bootstrap-server", broker.bootstrap_servers)
        subprocess.run([program, *where, "--create", "--topic", "made"], check=True, timeout=60)
        listed = subprocess.run([program, *where, "--list"], check=True, timeout=60, capture_output=True, text=True)
    assert listed.stdout == "made\n"
    asked = [sys.executable, "-X", "importtime", str(program), "--help"]
    told = subprocess.run(asked, check=True, timeout=60, capture_output=True, text=True)
    assert told.stdout.startswith("Usage: pybroker kafka-topics")
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "click" in imported
    assert not imported & {"asyncio", "pyclient.core", "pybroker.process.supervisor", "rich"}
