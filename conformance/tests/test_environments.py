"""Each long test belongs to one environment of ``tox.ini``: one that belongs to none is never run."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("cy", "pyclient", "pybroker", "docs", "conformance")
#: Runs the rows of the mission once more, those too that are long, and renews their report.
REPORT = "conformance"


def long_files() -> set[Path]:
    """Files with tests that are marked ``long``."""
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py"))
    return {path.relative_to(ROOT) for path in files if re.search(r"\bmark\.long\b", path.read_text())} - {
        Path(__file__).relative_to(ROOT)
    }


def commands() -> Iterator[tuple[str, list[str]]]:
    """Environments and the words of their commands."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for name in tox.sections():
        for line in tox[name].get("commands", "").replace("\\\n", " ").splitlines():
            if words := shlex.split(re.sub(r"\{(?:posargs:)?([^{}]*)\}", r"\1", line)):
                yield name.removeprefix("testenv:"), words


def of_long_tests() -> dict[str, tuple[list[Path], list[Path]]]:
    """By environment: which files and folders it runs the long tests of, and which of them it leaves out."""
    found = {}
    for name, words in commands():
        marks = words[words.index("-m") + 1] if "-m" in words else ""
        if words[0] == "pytest" and "long" in marks and name != REPORT:
            ignored = [Path(word.partition("=")[2]) for word in words if word.startswith("--ignore=")]
            found[name] = [Path(word) for word in words[1:] if (ROOT / word).exists()], ignored
    return found


def test_each_long_test_belongs_to_one_environment() -> None:
    environments = of_long_tests()
    wrong = {}
    for file in long_files():
        within = {file, *file.parents}
        names = [
            name for name, (paths, ignored) in environments.items() if within & {*paths} and not within & {*ignored}
        ]
        if len(names) != 1:
            wrong[str(file)] = names
    assert not wrong


def test_what_environments_name_is_there_and_has_long_tests() -> None:
    assert len(long_files()) > 10
    for name, (paths, ignored) in of_long_tests().items():
        for path in (*paths, *ignored):
            assert any(path in (file, *file.parents) for file in long_files()), f"{name}: {path}"
    for name, words in commands():
        for word in words:
            path = word.partition("=")[2] if word.startswith("--ignore=") else word
            if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and ".json" not in path:
                assert (ROOT / path).exists(), f"{name}: {path}"
