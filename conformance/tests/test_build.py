"""How the package is built: missing tools are reported before anything is compiled, and nothing is compiled twice."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]

TRANSLATE = """
import setup, setuptools
build = setup.Build(setuptools.Distribution({"ext_modules": setup.extensions()}))
build.ensure_finalized()
build.translate()
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Copies the sources of the build, with nothing compiled."""
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for package in ("cy", "pybroker", "pyclient"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "tests")
        )
    return tmp_path


def build(clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=clone,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("compiler", ["/bin/false", "/no/such/compiler", "true"])
def test_without_a_compiler_one_line_says_what_to_install(clone: Path, compiler: str) -> None:
    ended = build(clone, CC=compiler)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("pybroker cannot be compiled: there is no C compiler that works: apt install gcc")
    assert "Traceback" not in ended.stderr
    assert not list((clone / "cy").rglob("*.c"))


def test_without_pythons_headers_one_line_says_what_to_install(clone: Path) -> None:
    """The compiler finds everything but Python.h."""
    compiler = clone / "cc"
    compiler.write_text('#!/bin/sh\ninput=$(cat)\ncase "$input" in *Python.h*) exit 1 ;; esac\necho "$input"\n')
    compiler.chmod(0o755)
    ended = build(clone, CC=str(compiler))
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(f"pybroker cannot be compiled: {sys.executable} has no Python.h")


def test_cython_translates_a_module_again_only_after_a_source_changed(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file of another build environment's Cython is newer here."""
    monkeypatch.chdir(clone)
    names: dict[str, Any] = runpy.run_path(str(clone / "setup.py"))
    is_translated: Callable[[list[str], str], bool] = names["is_translated"]
    sources = [str(path) for path in Path("cy").glob("*.pyx")]
    assert not is_translated(sources, "recipe")
    for source in sources:
        Path(source).with_suffix(".c").write_text("")
    names["TRANSLATED"].parent.mkdir()
    names["TRANSLATED"].write_text("recipe")
    assert is_translated(sources, "recipe")
    assert not is_translated(sources, "recipe of other sources")
    Path(sources[0]).with_suffix(".c").unlink()
    assert not is_translated(sources, "recipe")


@pytest.fixture
def translate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Translates the files in an empty folder's ``cy``, where they have to be; returns which C files are new then."""
    monkeypatch.chdir(tmp_path)
    Path("cy").mkdir()
    Path("cy/__init__.py").touch()

    def translate() -> list[str]:
        before = {path: path.stat().st_mtime_ns for path in Path("cy").glob("*.c")}
        subprocess.run([sys.executable, "-c", TRANSLATE], check=True)
        return sorted(path.name for path in Path("cy").glob("*.c") if path.stat().st_mtime_ns != before.get(path))

    return translate


SHARED = "cdef inline int one() noexcept:\n    return 1\n"
ITEM = "def item(list values, int at):\n    return values[at]\n"


def test_changed_sources_are_translated_again_whatever_their_file_times(translate: Callable[[], list[str]]) -> None:
    """The test changes directives, and then sources whose files are older than their results."""
    shutil.copy(ROOT / "setup.py", "setup.py")
    Path("cy/shared.pxd").write_text(SHARED)
    Path("cy/user.pyx").write_text("from cy.shared cimport one\n\ndef ones():\n    return one()\n")
    Path("cy/alone.pyx").write_text(ITEM)
    assert translate() == ["alone.c", "user.c"]
    assert translate() == []
    for path, text, made in (
        (Path("cy/alone.pyx"), ITEM.replace("item", "another"), ["alone.c"]),
        (Path("cy/shared.pxd"), SHARED.replace("1", "2"), ["user.c"]),
    ):
        path.write_text(text)
        os.utime(path, (1e9, 1e9))
        assert translate() == made
    setup = Path("setup.py").read_text()
    Path("setup.py").write_text(setup.replace('"boundscheck": False', '"boundscheck": True'))
    unchecked = Path("cy/alone.c").read_text()
    assert translate() == ["alone.c", "user.c"]
    assert Path("cy/alone.c").read_text() != unchecked
    assert translate() == []


def test_a_module_compiled_in_place_is_compiled_again_only_after_a_source_changed(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip builds into folders of its own, which are new each time."""
    monkeypatch.chdir(clone)
    names: dict[str, Any] = runpy.run_path(str(clone / "setup.py"))
    is_compiled: Callable[[Path, Path], bool] = names["is_compiled"]
    source, module = Path("cy/codec.c"), Path("cy/codec.so")
    source.write_text("")
    assert not is_compiled(module, source)
    module.write_text("")
    os.utime(module, (2e9, 2e9))
    assert is_compiled(module, source)
    for changed in (source, Path("cy/crc32c_simd.h"), Path("setup.py")):
        before = changed.stat().st_mtime
        os.utime(changed, (2.1e9, 2.1e9))
        assert not is_compiled(module, source)
        os.utime(changed, (before, before))


def test_modules_compiled_with_other_flags_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``newer`` tests modules without optimizations, which must not be installed."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "setup.py", "setup.py")
    Path("cy").mkdir()
    Path("cy/__init__.py").touch()
    Path("cy/alone.pyx").write_text(ITEM)

    def compiled(flags: str) -> int:
        ended = build(tmp_path, PYBROKER_CFLAGS=flags)
        assert ended.returncode == 0, ended.stderr
        (module,) = Path("cy").glob("alone.*.so")
        return module.stat().st_mtime_ns

    quick = compiled("-O0")
    assert compiled("-O0") == quick
    assert compiled("") > quick


def test_the_modules_are_named_while_they_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip shows nothing of a build, which takes minutes; the build does not name existing modules again."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "setup.py", "setup.py")
    Path("cy").mkdir()
    Path("cy/__init__.py").touch()
    for name in ("one", "two"):
        Path(f"cy/{name}.pyx").write_text(ITEM)
    for _ in range(2):
        assert build(tmp_path, PYBROKER_CFLAGS="-O0", PYBROKER_PROGRESS="told").returncode == 0
    first, *rest = Path("told").read_text().splitlines()
    assert first == "translating the modules into C"
    assert sorted(line.partition(":")[0] for line in rest) == ["compiling 1 of 2", "compiling 2 of 2"]
    assert sorted(line.rpartition(": ")[2] for line in rest) == ["cy.one", "cy.two"]
    assert build(tmp_path, PYBROKER_CFLAGS="-O1", PYBROKER_PROGRESS="/no/such/file").returncode == 0


def test_an_uncompiled_clone_uses_the_installed_modules(clone: Path) -> None:
    program = "import cy.wire.codec, pybroker, pyclient; print(pybroker.__file__, cy.wire.codec.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", program],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert [Path(path).parents[n] for path, n in zip(shown, (1, 2), strict=True)] == [clone, ROOT]


def test_without_compiled_modules_one_line_says_what_to_do(clone: Path) -> None:
    """``python -m pybroker`` finds everything else that is installed."""
    program = (
        "import sys; sys.meta_path[:] = [each for each in sys.meta_path if 'editable' not in repr(each)]\n"
        f"sys.path[:] = [each for each in sys.path if each != {str(ROOT)!r}]\n"
        "from pybroker.__main__ import run; sys.exit(run(['api-versions', '-b', 'localhost:1']))"
    )
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=clone, env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == f"pybroker: the sources in {clone} are not compiled: run `sh install.sh` there\n"
