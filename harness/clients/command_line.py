"""Runs the ``pybroker`` command as a user types it, each time in a process with pipes for its streams.

``Scripts`` also makes a folder ``bin`` with ``kafka-topics.sh`` and so on. The lines of Kafka's documents run there
unchanged, except for the address.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from harness.witnesses import used

COMMAND = (sys.executable, "-m", "pybroker")
ADDRESS = "localhost:9092"
SCRIPTS = (
    *("topics", "console-producer", "console-consumer", "consumer-groups", "configs", "get-offsets", "log-dirs"),
    *("delete-records", "leader-election", "reassign-partitions", "producer-perf-test", "consumer-perf-test"),
    *("dump-log", "broker-api-versions", "server-start"),
)
TIMEOUT_S = 120


class CommandFailed(AssertionError):
    """A command ended with another exit code than expected. The text contains its output."""


def run(*words: object, code: int = 0, stdin: str | bytes = b"", timeout_s: float = TIMEOUT_S) -> str:
    """Runs ``pybroker …`` and returns its stdout.

    Raises:
        CommandFailed: its exit code is not ``code``.
    """
    return _ended([*COMMAND, *map(str, words)], code, stdin, timeout_s).stdout


def complaint(*words: object, code: int = 1, stdin: str | bytes = b"") -> str:
    """Returns the single line that a failing command writes to stderr.

    Raises:
        CommandFailed: its exit code is not ``code``, or it did not write exactly one line.
    """
    ended = _ended([*COMMAND, *map(str, words)], code, stdin, TIMEOUT_S)
    if ended.stderr.count("\n") != 1 or not ended.stderr.startswith("pybroker: "):
        raise CommandFailed(f"not one line of diagnostics: {ended}")
    return ended.stderr


def _ended(
    command: list[str], code: int, stdin: str | bytes, timeout_s: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    used("pybroker's commands")
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command, input=given, capture_output=True, timeout=timeout_s, check=False, cwd=cwd)
    ended = subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
    if ended.returncode != code:
        printed = ended.stdout + ended.stderr
        raise CommandFailed(f"{shlex.join(command)} ended with {ended.returncode}, not {code}:\n{printed}")
    return ended


class Scripts:
    """A folder whose ``bin/kafka-topics.sh`` runs our command."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        (folder / "bin").mkdir(parents=True)
        paths = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
        for name in SCRIPTS:
            script = folder / "bin" / f"kafka-{name}.sh"
            line = shlex.join([*COMMAND, script.name])
            script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(paths)} exec {line} "$@"\n')
            script.chmod(0o755)

    def __call__(self, line: str, code: int = 0) -> str:
        """Runs a line of a document in the folder and returns its stdout.

        Raises:
            CommandFailed: its exit code is not ``code``.
        """
        command = line.replace(ADDRESS, self.bootstrap)
        return _ended(["bash", "-c", command], code, b"", TIMEOUT_S, self.folder).stdout
