"""Builds the Cython extensions of ``cy/``; pyproject.toml and setup.cfg describe the rest of the distribution."""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}

CORES = os.cpu_count() or 1

# PYBROKER_ONLY="cy/batch.pyx" builds one module; used while developing.
ONLY = os.environ.get("PYBROKER_ONLY", "").split()


def extensions() -> list[Extension]:
    sources = ONLY or sorted(str(path) for path in Path("cy").glob("*.pyx"))
    return [
        Extension(
            source.removesuffix(".pyx").replace("/", "."),
            [source],
            extra_compile_args=["-O3", "-fno-strict-aliasing"],
        )
        for source in sources
    ]


# The processes that cythonize starts import this file again where they are no forks (Python 3.14).
if __name__ == "__main__":
    setup(
        ext_modules=cythonize(extensions(), nthreads=CORES, compiler_directives=DIRECTIVES, quiet=True),
        options={"build_ext": {"parallel": CORES}},
    )
