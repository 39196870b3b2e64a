"""Calls Go's Kafka clients, franz-go and kafka-go, by the suite's own program ``harness/go``.

The first use compiles the program; it needs Go 1.26, or 1.21 and newer, which fetch 1.26 themselves. Each call is a
process of its own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from harness import peers
from harness.peers import HERE, PeerError
from harness.witnesses import used

SOURCES = HERE / "go"
LIBRARIES = ("franz-go", "kafka-go")
#: Exceeds the time that the program gives its clients.
CALL_TIMEOUT_S = 90.0


class GoError(RuntimeError):
    """A call has failed; ``name`` is the library's own name of Kafka's error."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def ask(library: str, call: str, **arguments: Any) -> Any:
    """Makes one call of a library, and returns its result.

    Raises:
        GoError: the broker has refused it.
        PeerError: the program does not compile, or failed otherwise.
    """
    used(library)
    request = json.dumps({"call": call, **arguments})
    done = subprocess.run(
        [compiled(), library], input=request, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise PeerError(f"{call} by {library} failed: {done.stderr}")
    answer = json.loads(done.stdout)
    if answer["error"]:
        raise GoError(answer["error"], answer["text"])
    return answer["result"]


def compiled() -> Path:
    """Returns the program, which is compiled when its sources are newer than any program of it.

    Raises:
        PeerError: Go is missing, or the program does not compile.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()[:12]
    program = peers.folder() / "go" / f"clients-{digest}"
    if not program.exists():
        with peers.lock():
            if not program.exists():
                _compile(program)
    return program


def _compile(program: Path) -> None:
    """Compiles under another name and then renames, so that an interruption leaves no half program."""
    go = shutil.which("go")
    if go is None:
        raise PeerError("go is not installed: this needs Go 1.21 or newer")
    program.parent.mkdir(exist_ok=True)
    unfinished = program.with_suffix(".unfinished")
    command = [go, "build", "-buildvcs=false", "-o", str(unfinished), "."]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    unfinished.rename(program)
