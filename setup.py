"""Builds the Cython extensions of ``cy/``; pyproject.toml and setup.cfg describe the rest of the distribution.

Before anything is translated a compiler and Python's headers are looked for: half a minute later it would be told in
forty lines. What was translated from the same sources is not translated again, also by another build environment, whose
Cython looks newer than every file.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}

# They follow Python's own, whose -g costs a quarter of the compilation, for debuggers only.
# PYBROKER_CFLAGS=-O0 compiles in a quarter of the time what is only tested.
FLAGS = ["-O3", "-g0", "-fno-strict-aliasing", *shlex.split(os.environ.get("PYBROKER_CFLAGS", ""))]

CORES = os.cpu_count() or 1

# PYBROKER_ONLY="cy/batch/builder.pyx" builds one module; used while developing.
ONLY = os.environ.get("PYBROKER_ONLY", "").split()

# PYBROKER_PROGRESS=/dev/stderr names a file for a line per module: pip hides what a build prints.
PROGRESS = os.environ.get("PYBROKER_PROGRESS")

HEADERS = Path("cy")
TRANSLATED = Path("build") / "translated"
"""Says what the C files are of: ``recipe()``."""
COMPILED = Path("build") / f"flags{sysconfig.get_config_var('EXT_SUFFIX')}"
"""Says by which flags the modules in place were compiled."""


def extensions() -> list[Extension]:
    sources = ONLY or sorted(str(path) for path in Path("cy").rglob("*.pyx"))
    return [
        Extension(
            source.removesuffix(".pyx").replace("/", "."),
            [source],
            extra_compile_args=FLAGS,
        )
        for source in sources
    ]


def tell(line: str) -> None:
    """Adds a line to ``PROGRESS``, if it can be written."""
    if PROGRESS:
        with contextlib.suppress(OSError), open(PROGRESS, "a", encoding="utf-8") as out:
            print(line, file=out)


def preprocesses(text: str) -> bool:
    """Whether the compiler is there and finds what ``text`` includes."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    flags = shlex.split(os.environ.get("CPPFLAGS", "") + " " + os.environ.get("CFLAGS", ""))
    command = [*compiler, *flags, "-I", sysconfig.get_path("include"), "-E", "-x", "c", "-"]
    try:
        ended = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    except OSError:
        return False
    return ended.returncode == 0 and bool(ended.stdout)


def missing() -> str | None:
    """What has to be installed before this can be built, in one line; None if nothing is missing."""
    if not preprocesses("#include <stdio.h>\n"):
        return "there is no C compiler that works: apt install gcc libc6-dev (elsewhere gcc or clang; CC names one)"
    if not preprocesses("#include <Python.h>\n"):
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
        return f"{sys.executable} has no Python.h: apt install python3-dev (or {package}; on Fedora python3-devel)"
    return None


def recipe() -> str:
    """All that decides what the C files are: a line for Cython and its directives, a line for each source."""
    from Cython import __version__

    sources = sorted(path for pattern in ("*.pyx", "*.pxd", "*.h") for path in Path("cy").rglob(pattern))
    digests = (f"{path.as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources)
    return "\n".join((f"Cython {__version__} {sorted(DIRECTIVES.items())}", *digests))


def is_translated(sources: list[str], wanted: str) -> bool:
    """Whether the C files of these sources are there, and of that recipe."""
    if not TRANSLATED.is_file() or TRANSLATED.read_text() != wanted:
        return False
    return all(Path(source).with_suffix(".c").is_file() for source in sources)


def name_of(line: str) -> str:
    """What a line of a recipe is about."""
    return line.partition(" ")[0]


def renew(wanted: str) -> bool:
    """Makes the sources look new that the C files are not of: Cython goes by the times of files, and knows what depends
    on them. Returns whether that does not do, so that everything has to be translated.
    """
    before = TRANSLATED.read_text().splitlines() if TRANSLATED.is_file() else []
    how, *sources = wanted.splitlines()
    kept = [line for line in (how, *sources) if line in before and name_of(line) not in ONLY]
    for line in sources:
        if line not in kept:
            os.utime(name_of(line))
    TRANSLATED.parent.mkdir(exist_ok=True)
    TRANSLATED.write_text("\n".join(kept))  # what fails now is translated the next time
    return how not in kept or not {*map(name_of, before)} <= {*map(name_of, (how, *sources))}


def is_compiled(module: Path, source: Path) -> bool:
    """Whether the module is there, and younger than its C file, all headers and this file."""
    if not module.is_file():
        return False
    made = module.stat().st_mtime
    return all(each.stat().st_mtime <= made for each in (source, Path(__file__), *HEADERS.glob("*.h")))


class Build(build_ext):
    """Looks for what is needed, then translates, then compiles."""

    def run(self) -> None:
        if lacking := missing():
            raise SystemExit(f"pybroker cannot be compiled: {lacking}")
        self.translate()
        flags = shlex.join(FLAGS)
        if not ONLY and not (COMPILED.is_file() and COMPILED.read_text() == flags):
            self.force = True
        self._numbers = itertools.count(1)
        in_place = self.inplace and not ONLY
        if in_place:
            COMPILED.unlink(missing_ok=True)
        super().run()
        if in_place:
            COMPILED.write_text(flags)

    def translate(self) -> None:
        """Makes C files of the sources that are not translated yet."""
        sources = [extension.sources[0] for extension in self.extensions]
        wanted = recipe()
        if ONLY or not is_translated(sources, wanted):
            from Cython.Build import cythonize

            tell("translating the modules into C")
            force = renew(wanted)
            translated = cythonize(
                extensions(), nthreads=CORES, compiler_directives=DIRECTIVES, force=force, quiet=True
            )
            for extension, other in zip(self.extensions, translated, strict=True):
                extension.depends = other.depends
            if not ONLY:
                TRANSLATED.write_text(wanted)
        for extension, source in zip(self.extensions, sources, strict=True):
            extension.sources = [str(Path(source).with_suffix(".c"))]

    def build_extension(self, ext: Extension) -> None:
        """Compiles a module, or takes the one that was compiled in place of the same sources: pip builds elsewhere."""
        made = Path(self.get_ext_fullpath(ext.name))
        there = Path(*ext.name.split(".")).with_name(made.name)
        number = next(self._numbers)
        if self.force or not is_compiled(there, Path(ext.sources[0])):
            tell(f"compiling {number} of {len(self.extensions)}: {ext.name}")
            super().build_extension(ext)
        elif made.absolute() != there.absolute():
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(there, made)


# The processes that cythonize starts import this file again where they are no forks (Python 3.14).
if __name__ == "__main__":
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": Build},
        options={"build_ext": {"parallel": CORES}},
    )
