"""The real peers: Apache Kafka's jars, fetched once by maven, and a runner for their classes.

The jars live in ``.peers/libs`` of the checkout, or of the folder that ``PYBROKER_PEERS`` names. Starting the JVM is
the main cost of a test with a Java tool. So every tool runs on a small heap, with the serial collector and the first
compiler only. A tool's first run leaves an archive of its classes (AppCDS) for the next one.

The suite's own Java sources are in ``harness/java``; their first use compiles them against the jars.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from harness.witnesses import used

KAFKA_VERSION = "4.4.0"
HERE = Path(__file__).resolve().parent
#: The artifacts of this version that the pom names. Maven adds their dependencies.
DIRECT = ("kafka_2.13", "kafka-tools", "kafka-streams", "connect-runtime")
#: Options of every JVM that the suite starts for a short time.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class PeerError(RuntimeError):
    """A peer could not be fetched, or its tool failed. The text contains the output."""


def folder() -> Path:
    """Returns the folder of the peers: ``PYBROKER_PEERS``, or ``.peers`` of the checkout."""
    return Path(os.environ.get("PYBROKER_PEERS") or HERE.parent / ".peers")


def libs() -> Path:
    """Returns the folder of Kafka's jars. The first call fetches them (some 90 MB).

    Raises:
        PeerError: maven is missing or failed.
    """
    target = folder() / "libs"
    if not _complete(target):
        with lock():
            if not _complete(target):
                _fetch(target)
    return target


def _complete(target: Path) -> bool:
    return all((target / f"{name}-{KAFKA_VERSION}.jar").exists() for name in DIRECT)


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Holds a lock while a process fetches or compiles, because several may need the same at once."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def jars_of(pom: Path, name: str) -> Path:
    """Returns the folder of the jars that another pom names. The first call fetches them.

    Raises:
        PeerError: maven is missing or failed.
    """
    target = folder() / name
    if not target.exists():
        with lock():
            if not target.exists():
                _fetch(target, pom)
    return target


def environment(name: str, requirements: Sequence[str]) -> Path:
    """Returns the interpreter of a virtual environment with these packages. The first call makes it.

    Raises:
        PeerError: pip failed.
    """
    target = folder() / name
    complete = target / "complete"
    if not complete.exists():
        with lock():
            if not complete.exists():
                _install(target, requirements)
                complete.touch()
    return target / "bin" / "python"


def _install(target: Path, requirements: Sequence[str]) -> None:
    """Makes the environment in its final place, because its scripts contain the path of their folder."""
    venv.create(target, clear=True, with_pip=True)
    command = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _fetch(target: Path, pom: Path = HERE / "pom.xml") -> None:
    """Copies the jars beside the target first, so that an interrupted fetch leaves no half folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerError("mvn is not installed: run `sh install.sh tests`")
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command.append(f"-DoutputDirectory={unfinished}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)


def compiled(name: str) -> Path:
    """Returns the jar of ``harness/java/<name>.java``, compiled when the source is newer than any jar of it.

    If several processes call this at once, the first compiles, and the others wait.

    Raises:
        PeerError: javac is missing, or found an error.
    """
    source = HERE / "java" / f"{name}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    jar = folder() / "java" / f"{name}-{digest}.jar"
    if not jar.exists():
        jars = libs()
        with lock():
            if not jar.exists():
                _compile(source, jars, jar)
    return jar


def _compile(source: Path, jars: Path, jar: Path) -> None:
    """Compiles into a temporary jar and then renames it, because others may be running from the old one."""
    javac = shutil.which("javac")
    if javac is None:
        raise PeerError("javac is not installed: run `sh install.sh tests`")
    jar.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        classes, unfinished = Path(scratch, "classes"), Path(scratch, "unfinished.jar")
        command = [javac, "-nowarn", "-proc:none", "--release", "17", "-cp", f"{jars}/*"]
        done = subprocess.run(
            [*command, "-d", str(classes), str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PeerError(f"{source.name} does not compile:\n{done.stdout}{done.stderr}")
        with zipfile.ZipFile(unfinished, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
        unfinished.rename(jar)


def jvm(heap: str = "256m", options: Sequence[str] = SHORT_LIVED, more: Sequence[Path] = ()) -> list[str]:
    """Returns the beginning of a command line that runs a class of the peers, or of the jars ``more``."""
    java = shutil.which("java")
    if java is None:
        raise PeerError("java is not installed: run `sh install.sh tests`")
    class_path = os.pathsep.join([f"{libs()}/*", *map(str, more)])
    return [java, f"-Xmx{heap}", *options, "-cp", class_path]


def tool(main_class: str, *arguments: str, heap: str = "256m", archive_to: Path | None = None) -> list[str]:
    """Returns the command line of one of Kafka's tools, which uses the class archive that its last run left.

    ``archive_to``: where this run leaves an archive at its end, if there is none yet.
    """
    archive = _archive(main_class)
    options = [*SHORT_LIVED, "-Xlog:disable", "-Xlog:all=error:stderr"]
    if archive.exists():
        options.append(f"-XX:SharedArchiveFile={archive}")
    elif archive_to is not None:
        options.append(f"-XX:ArchiveClassesAtExit={archive_to}")
    return [*jvm(heap, options), main_class, *arguments]


def _archive(main_class: str) -> Path:
    return folder() / "cds" / f"{main_class}.jsa"


@contextlib.contextmanager
def _archiving(main_class: str) -> Iterator[Path | None]:
    """Yields the path to which a run may write its class archive. Then renames the archive, because other processes may
    be reading the old one.
    """
    archive = _archive(main_class)
    if archive.exists() or not os.access(libs().parent, os.W_OK):
        yield None
        return
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        unfinished = Path(scratch, archive.name)
        yield unfinished
        if unfinished.exists():
            unfinished.rename(archive)


def program(name: str, *arguments: str, heap: str = "256m", options: Sequence[str] = SHORT_LIVED) -> list[str]:
    """Returns the command line of one of the suite's own programs, ``harness/java/<name>.java``."""
    return [*jvm(heap, options, [compiled(name)]), name, *arguments]


class Java:
    """Runs classes of the peers, each in a JVM of its own."""

    def __call__(
        self,
        main_class: str,
        *arguments: str,
        stdin: str | bytes | IO[bytes] | None = None,
        timeout_s: float = 60,
        check: bool = True,
        heap: str = "256m",
    ) -> str:
        """Runs to the end and returns stdout.

        Raises:
            PeerError: the exit code is not 0 (with ``check``), or stderr shows an exception.
        """
        used("Java")
        feed: dict[str, Any] = {}
        if isinstance(stdin, str | bytes):
            feed["input"] = stdin.encode() if isinstance(stdin, str) else stdin
        elif stdin is not None:
            feed["stdin"] = stdin
        else:
            feed["stdin"] = subprocess.DEVNULL
        with _archiving(main_class) as archive_to:
            command = tool(main_class, *arguments, heap=heap, archive_to=archive_to)
            done: subprocess.CompletedProcess[bytes] = subprocess.run(
                command, capture_output=True, timeout=timeout_s, check=False, **feed
            )
        output, errors = done.stdout.decode(), done.stderr.decode()
        if check and (done.returncode != 0 or "Exception" in errors):
            raise PeerError(
                f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{output}{errors}"
            )
        return output

    def start(self, main_class: str, *arguments: str, heap: str = "256m") -> subprocess.Popen[str]:
        """Starts a tool that runs until its process is stopped."""
        used("Java")
        return subprocess.Popen(
            tool(main_class, *arguments, heap=heap),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
